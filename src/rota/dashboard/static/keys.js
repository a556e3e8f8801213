// Keys that work on every page. A page adds its own with `onKey`.
const PAGES = { b: "/", o: "/ui/overview", a: "/ui/agents", s: "/ui/schedules", r: "/ui/runs", i: "/ui/signals" };
const keys = new Map();
let going = false;

export const onKey = (key, act) => { keys.set(key, act); };

export const typing = (event) =>
  event.target.matches("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target.matches("input, textarea, select")) { event.target.blur(); return; }
  if (typing(event)) return;
  if (going && PAGES[event.key]) { location.assign(PAGES[event.key]); return; }
  going = event.key === "g";
  if (event.key === "?") { document.getElementById("keys").showModal(); event.preventDefault(); return; }
  const act = keys.get(event.key);
  if (act && act(event) !== false) event.preventDefault();
});

onKey("/", () => {
  const search = document.querySelector("input[type=search]");
  if (!search) return false;
  search.focus();
  search.select();
  return true;
});
