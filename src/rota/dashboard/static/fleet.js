// Agents and schedules: the page is fetched again when something is due, because a waking without
// work leaves no event. A dialog is told which agent it is about.
import { refresh } from "./parts.js";
import { now } from "./times.js";

const SOONEST = 10000;
const LATEST = 300000; // the line that marks now moves, too
const LATE = 1500; // what is due takes a moment

const moments = () =>
  [...document.querySelectorAll("[data-refresh]")].map((one) => Date.parse(one.dataset.refresh)).filter(Number.isFinite);

function wait() {
  const ahead = moments().map((at) => at + LATE - now()).filter((left) => left > 0);
  const pause = Math.min(LATEST, Math.max(SOONEST, Math.min(...ahead)));
  setTimeout(async () => {
    if (!document.hidden) await refresh();
    wait();
  }, pause);
}

// Panels are replaced one by one; if some were added or removed, the page is reloaded.
const names = document.getElementById("panel-names");
if (names) {
  const shown = [...document.querySelectorAll("#panels > [data-part]")].map((one) => `${one.id} `).join("");
  new MutationObserver(() => {
    const present = document.getElementById("panel-names");
    const open = document.querySelector("dialog[open]");
    if (!present || present.dataset.names === shown) return;
    if (open) open.addEventListener("close", () => location.reload(), { once: true });
    else location.reload();
  }).observe(names.parentElement, { childList: true });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-dialog=slots]");
  if (!button) return;
  const dialog = document.getElementById("slots");
  dialog.querySelector("[data-says=agent]").textContent = button.dataset.agent;
  dialog.querySelector("input").value = button.dataset.slots;
}, true);

wait();
