// Keeps a page current: when something it shows has changed, the page is fetched again, and parts
// that differ are replaced. The server renders and escapes; this script never makes markup of text.
import { onEvents } from "./feed.js";
import { localise } from "./times.js";

const AT_MOST_EVERY = 400;
const AFTER_FAILURE = 2000;
const SLOWEST_FORM = 60000;
const prefixes = (document.body.dataset.live || "").split(" ").filter(Boolean);
// Ids of items or runs: the page is only refreshed for these.
const about = (document.body.dataset.about || "").split(" ").filter(Boolean);
let last = -Infinity; // by a clock that nobody sets back
let waiting = null;
let running = false;
let again = false;
let recount = null;

export function refreshSoon() {
  if (waiting !== null) return;
  const pause = Math.max(0, last + AT_MOST_EVERY - performance.now());
  waiting = setTimeout(() => { waiting = null; refresh(); }, pause);
}

let left = -Infinity;

// Not again while the form is on its way: that would begin anew, and on a slow network never end.
export function signIn() {
  if (performance.now() < left + SLOWEST_FORM) return;
  left = performance.now();
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}

export async function fetchPage(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  if (answer.status === 401 || answer.redirected) {
    signIn();
    throw new Error("signed out");
  }
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

export async function refresh() {
  if (running) { again = true; return; }
  running = true;
  last = performance.now();
  try {
    const page = await fetchPage(location.href);
    askAgain(page);
    swap(page);
  } catch {
    setTimeout(refreshSoon, AFTER_FAILURE); // the event that caused this is not sent again
  }
  running = false;
  if (again) { again = false; refreshSoon(); }
}

// Expensive figures may be old. The page then says when they will be counted again, because no
// event may come to ask for them.
function askAgain(page) {
  const old = page.querySelector("[data-again-in]");
  clearTimeout(recount);
  if (old) recount = setTimeout(refreshSoon, old.dataset.againIn * 1000);
}

const inUse = (part) => {
  const at = document.activeElement;
  return part.querySelector("dialog[open]") || (part.contains(at) && at.matches("input, textarea, select"));
};

function swap(page) {
  localise(page);
  for (const fresh of page.querySelectorAll("[data-part]")) {
    const part = document.getElementById(fresh.id);
    if (!part || inUse(part) || part.isEqualNode(fresh)) continue;
    replace(part, fresh);
  }
  setTitle(page.title, page.querySelector("link[rel=icon]").getAttribute("href"));
}

// Open details stay open, and the focused element keeps the focus, if they are still there.
function replace(part, fresh) {
  const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
  for (const open of part.querySelectorAll("details[open][id]")) {
    const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
    if (same) same.open = true;
  }
  const scrolled = [...part.querySelectorAll("[data-scroll][id]")].map((one) => [one.id, one.scrollTop, one.scrollLeft]);
  part.replaceWith(document.adoptNode(fresh));
  for (const [id, top, left] of scrolled) {
    const same = document.getElementById(id);
    if (same) same.scrollTo(left, top);
  }
  if (focused) document.getElementById(focused)?.focus();
}

export function setTitle(title, icon) {
  if (document.title !== title) document.title = title;
  const link = document.querySelector("link[rel=icon]");
  if (link.getAttribute("href") !== icon) link.setAttribute("href", icon);
}

const shown = (event) =>
  prefixes.some((prefix) => event.type.startsWith(prefix)) &&
  (!about.length || [event.work_item_id, event.payload?.run_id].some((id) => about.includes(id)));

if (prefixes.length) {
  onEvents(({ events, refused }) => {
    if (refused && refused.status === 401) refresh();
    if (events && events.some(shown)) refreshSoon();
  });
}

askAgain(document);
