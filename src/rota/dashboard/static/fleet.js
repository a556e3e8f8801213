// Agents and schedules: what is due is looked at again when its time has come, because a waking
// without work leaves no event; and a dialog is told which agent it is about.
import { refresh } from "./parts.js";

const SOONEST = 10000;
const LATEST = 300000; // the line of now goes on too
const LATE = 1500; // what is due needs a moment to be done

const moments = () =>
  [...document.querySelectorAll("[data-refresh]")].map((one) => Date.parse(one.dataset.refresh)).filter(Number.isFinite);

function wait() {
  const ahead = moments().map((at) => at + LATE - Date.now()).filter((left) => left > 0);
  const pause = Math.min(LATEST, Math.max(SOONEST, Math.min(...ahead)));
  setTimeout(async () => {
    if (!document.hidden) await refresh();
    wait();
  }, pause);
}

// Panels are replaced one by one; where some have come or gone, the page is loaded anew.
const names = document.getElementById("panel-names");
if (names) {
  const shown = [...document.querySelectorAll("#panels > [data-part]")].map((one) => `${one.id} `).join("");
  new MutationObserver(() => {
    const now = document.getElementById("panel-names");
    const open = document.querySelector("dialog[open]");
    if (!now || now.dataset.names === shown) return;
    if (open) open.addEventListener("close", () => location.reload(), { once: true });
    else location.reload();
  }).observe(names.parentElement, { childList: true });
}

// Hours and days are drawn by the server, which did not know on a first visit where the viewer is.
const zone = document.getElementById("panels")?.dataset.zone;
if (zone && zone !== Intl.DateTimeFormat().resolvedOptions().timeZone) refresh();

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-dialog=slots]");
  if (!button) return;
  const dialog = document.getElementById("slots");
  dialog.querySelector("[data-says=agent]").textContent = button.dataset.agent;
  dialog.querySelector("input").value = button.dataset.slots;
}, true);

wait();
