// Keeps the board current: the feed tells which cards change, and people move them by mouse, menu
// or key. The server renders the cards; this script only puts them in place.
import { announce, ask, call, complain } from "./act.js";
import { onEvents } from "./feed.js";
import { onKey, typing } from "./keys.js";
import { fetchPage, setTitle } from "./parts.js";
import { localise, now } from "./times.js";

const AT_ONCE = 200; // for more cards than this, the whole page is fetched
const AT_MOST_EVERY = 120;
const MOST_KEPT = 100; // cards of a column, where nobody looks further than its first page
const board = document.getElementById("board");
const { moves, words, needs, titles, order, a_page } = JSON.parse(board.dataset.board);
const filters = new URLSearchParams(location.search);

const columnOf = (status) => board.querySelector(`.column[data-status="${status}"]`);
const cardOf = (id) => document.getElementById(`i-${id}`);
const nameOf = (card) => card.querySelector(".name").textContent;
const columns = () => [...board.querySelectorAll(".column")];
const allCards = () => [...board.querySelectorAll(".card")];

// changes by others

const heard = new Set();
let asking = false;
let asked = -Infinity; // by a clock that nobody sets back
let loading = 0; // pages of columns
const meanwhile = new Set(); // what was heard since the first of them was asked for

function hear(ids) {
  for (const id of ids) {
    heard.add(id);
    if (loading) meanwhile.add(id);
  }
  if (heard.size && !asking) setTimeout(update, Math.max(0, asked + AT_MOST_EVERY - performance.now()));
  asking ||= heard.size > 0;
}

async function update() {
  const ids = [...heard];
  heard.clear();
  asked = performance.now();
  let pause = 1000;
  try {
    if (ids.length > AT_ONCE) await reload();
    else put(ids, await fetched(`/board?${new URLSearchParams([...filters, ...ids.map((id) => ["id", id])])}`));
    if (columns().some(isOverfull)) await reload(isOverfull);
    pause = AT_MOST_EVERY;
  } catch {
    for (const id of ids) heard.add(id);
  }
  // Changes that came meanwhile, or whose request failed.
  asking = heard.size > 0;
  if (asking) setTimeout(update, pause);
}

// Cards stay while one is dragged: a browser does not tell the end of a drag whose card is gone.
async function fetched(address) {
  const page = await fetchPage(address);
  while (dragged.length) await new Promise((done) => setTimeout(done, AT_MOST_EVERY));
  localise(page);
  return page;
}

function put(ids, page) {
  const fresh = new Map([...page.querySelectorAll(".card")].map((card) => [card.dataset.id, card]));
  const told = [];
  for (const id of ids) {
    const old = cardOf(id);
    const card = fresh.get(id);
    if (card && old && old.dataset.status !== card.dataset.status) told.push(`${nameOf(card)}: ${titles[card.dataset.status]}`);
    place(old, card);
  }
  for (const count of page.querySelectorAll(".count")) {
    const shown = board.querySelector(`.count[data-of="${count.dataset.of}"]`);
    if (shown) shown.textContent = count.textContent;
  }
  if (told.length) announce(told.length > 3 ? `${told.length} items moved` : told.join(". "));
  showAround(page);
}

function showAround(page) {
  document.getElementById("attention").replaceChildren(...page.getElementById("attention").childNodes);
  setTitle(page.title, page.querySelector("link[rel=icon]").getAttribute("href"));
  showPicked();
}

function place(old, card) {
  if (!card) { remove(old); return; }
  const kept = old && { focus: old.contains(document.activeElement), picked: old.classList.contains("picked"), status: old.dataset.status };
  const next = successor(old, card);
  if (next === undefined) { remove(old); return; } // it is on a page that is not loaded
  if (old && old.isEqualNode(card)) return;
  if (kept?.picked) pick(card, true);
  if (kept?.status !== card.dataset.status) card.classList.add("moved");
  const list = columnOf(card.dataset.status).querySelector(".cards");
  old?.remove();
  list.insertBefore(document.adoptNode(card), next);
  if (kept?.focus) card.focus({ preventScroll: true });
}

// The card that follows this one: null at the end, undefined after the cards that are loaded. Those
// end where the next page begins, whether or not the last of them is still there.
function successor(old, card) {
  const column = columnOf(card.dataset.status);
  if (!column) return undefined;
  const { key } = card.dataset;
  const down = column.dataset.order === "down";
  const isBehind = (other) => (down ? other < key : other > key);
  const last = column.querySelector(".more")?.dataset.last ?? null;
  if (last !== null && last !== key && !isBehind(last)) return undefined;
  const others = [...column.querySelectorAll(".card")].filter((other) => other !== old);
  return others.find((other) => isBehind(other.dataset.key)) ?? null;
}

function remove(card) {
  if (!card) return;
  const neighbour = card.nextElementSibling || card.previousElementSibling;
  const focused = card.contains(document.activeElement);
  card.remove();
  if (focused) neighbour?.focus();
}

// A board that stays open gets ever more cards.
function isOverfull(column) {
  const cards = column.querySelectorAll(".card");
  return hasYesterday(column, cards) || (cards.length > MOST_KEPT &&
    cards[a_page].getBoundingClientRect().top > innerHeight && !column.querySelector(".picked, :focus"));
}

function hasYesterday(column, cards) {
  const counted = Number(column.querySelector(".count").textContent.replace(/\D/g, ""));
  if (column.dataset.status !== "completed" || cards.length <= counted) return false;
  return Date.parse(cards[cards.length - 1].dataset.key.split(" ")[0]) < new Date(now()).setHours(0, 0, 0, 0);
}

async function reload(wanted = () => true) {
  const page = await fetched(location.href);
  const kept = { picked: picked(), focus: current() };
  for (const column of page.querySelectorAll(".column")) {
    const old = columnOf(column.dataset.status);
    if (!wanted(old)) continue;
    for (const card of column.querySelectorAll(".card")) cardOf(card.dataset.id)?.remove();
    old.replaceWith(document.adoptNode(column));
  }
  for (const { dataset } of kept.picked) if (cardOf(dataset.id)) pick(cardOf(dataset.id), true);
  if (kept.focus) cardOf(kept.focus.dataset.id)?.focus({ preventScroll: true });
  showAround(page);
  watchEnds();
}

onEvents(({ events, refused }) => {
  if (refused && refused.status === 401) fetchPage(location.href).catch(() => {});
  if (events) hear(events.map((event) => event.work_item_id).filter(Boolean));
});

// pages of a column

const ends = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) if (isIntersecting) more(target);
}, { rootMargin: "300px" });

function watchEnds() {
  for (const link of board.querySelectorAll(".more")) ends.observe(link);
}

async function more(link) {
  ends.unobserve(link);
  if (link.dataset.busy) return;
  link.dataset.busy = "yes";
  loading += 1;
  try {
    const page = await fetched(link.href);
    if (!link.isConnected) return; // all columns were fetched anew
    const list = link.parentElement.querySelector(".cards");
    for (const card of page.querySelectorAll(".card")) {
      cardOf(card.dataset.id)?.remove();
      list.append(document.adoptNode(card));
    }
    const next = page.querySelector("a.more");
    if (!next) { link.remove(); return; }
    link.href = next.getAttribute("href");
    link.dataset.last = next.dataset.last;
    delete link.dataset.busy;
    ends.observe(link);
  } catch {
    delete link.dataset.busy;
    link.textContent = "More (could not be loaded; click to try again)";
  } finally {
    loading -= 1;
    hear(meanwhile); // the page may show it as it was before
    if (!loading) meanwhile.clear();
  }
}

board.addEventListener("click", (event) => {
  const link = event.target.closest(".more");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  more(link);
});

// moves

function verbsOf(card) {
  const possible = Object.values(moves[card.dataset.status] || {});
  const likely = isBlocked(card) ? ["release"] : []; // with an answer: its agent has usually ended
  return [...likely, ...order.filter((verb) => possible.includes(verb) && !likely.includes(verb))];
}

const isBlocked = (card) => card.dataset.status === "blocked";

const commonVerbs = (cards) => verbsOf(cards[0]).filter((verb) => cards.every((one) => verbsOf(one).includes(verb)));

// Leaves in `cards` those that were refused, so that only they are tried again.
async function act(cards, verb, body) {
  const all = cards.splice(0);
  const done = [];
  const refused = [];
  for (const card of all) {
    try {
      await call(`POST /work/${card.dataset.id}/${verb}`, body);
      done.push(card);
    } catch (error) {
      cards.push(card);
      refused.push(all.length > 1 ? `${nameOf(card)}: ${error.message}` : error.message);
    }
  }
  if (done.length) announce(`${words[verb][0]}: ${done.length === 1 ? nameOf(done[0]) : `${done.length} items`}`);
  if (refused.length) throw new Error(refused.join(" "));
  clearPicked();
}

function propose(cards, verb) {
  const claimed = cards.filter((card) => card.dataset.claimed && card.dataset.status === "in_progress");
  const dialog = document.getElementById("move");
  const wanted = new Set([needs[verb], "notes", ...(claimed.length ? ["force"] : [])]);
  const asks = verb === "cancel" || verb === "fail" || (verb === "release" && cards.some(isBlocked));
  if (!needs[verb] && !claimed.length && !asks) {
    act(cards, verb, {}).catch((error) => complain(error.message));
    return;
  }
  document.getElementById("move-title").textContent = `${words[verb][0]}: ${cards.length === 1 ? nameOf(cards[0]) : `${cards.length} items`}`;
  document.getElementById("move-text").textContent = words[verb][1];
  document.getElementById("move-do").textContent = words[verb][0];
  for (const label of dialog.querySelectorAll("[data-for]")) {
    const field = label.querySelector("input, textarea");
    label.hidden = !wanted.has(label.dataset.for);
    field.disabled = label.hidden;
    field.required = label.dataset.for === needs[verb] || label.dataset.for === "force";
    if (field.type !== "checkbox") field.value = "";
    else field.checked = false;
  }
  dialog.querySelector("[data-for=force] span").textContent =
    `End the claim of ${claimed.map((card) => card.dataset.claimed).join(", ")}, who is working on it`;
  ask(dialog, (body) => act(cards, verb, body));
}

const verbTo = (card, target) => moves[card.dataset.status]?.[target];

function moveTo(cards, target) {
  const moving = cards.filter((card) => card.dataset.status !== target);
  const verbs = [...new Set(moving.map((card) => verbTo(card, target)))];
  if (verbs.includes(undefined)) complain(whyNot(moving.find((card) => !verbTo(card, target)), target));
  else if (verbs.length > 1) complain(`These items become ${spoken(target)} by different actions (${verbs.map((verb) => words[verb][0]).join(", ")}). Move the items of one column at a time.`);
  else if (moving.length) propose(moving, verbs[0]);
}

const spoken = (status) => status.replace("_", " ");

function whyNot(card, target) {
  const ways = Object.entries(moves[card.dataset.status] || {}).map(([to, verb]) => `${words[verb][0]} → ${spoken(to)}`);
  const instead = ways.length ? `possible: ${ways.join(", ")}` : "this status is final";
  return `${nameOf(card)} is ${spoken(card.dataset.status)} and cannot become ${spoken(target)} (${instead}).`;
}

// by mouse

let dragged = [];

board.addEventListener("dragstart", (event) => {
  const card = event.target.closest(".card");
  if (!card) return;
  dragged = card.classList.contains("picked") ? picked() : [card];
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.map((one) => one.dataset.id).join(" "));
  for (const one of dragged) one.classList.add("dragged");
  for (const column of columns()) {
    const target = column.dataset.status;
    const may = dragged.every((one) => one.dataset.status === target || verbTo(one, target));
    column.classList.add(may ? "may" : "may-not");
  }
});
board.addEventListener("dragover", (event) => { if (dragged.length) event.preventDefault(); });
board.addEventListener("drop", (event) => {
  const column = event.target.closest(".column");
  if (!column || !dragged.length) return;
  event.preventDefault();
  moveTo(dragged, column.dataset.status);
});
board.addEventListener("dragend", () => {
  for (const one of dragged) one.classList.remove("dragged");
  for (const column of columns()) column.classList.remove("may", "may-not");
  dragged = [];
});

// by menu

const menu = document.getElementById("menu");
let menuOf = null; // the id of its card, which may be replaced meanwhile

function openMenu(card) {
  const cards = card.classList.contains("picked") ? picked() : [card];
  menu.replaceChildren(...commonVerbs(cards).map((verb) => entry(words[verb][0], () => propose(cards, verb))),
    entry("Open", () => card.querySelector(".name").click()));
  menu.hidden = false;
  menuOf = card.dataset.id;
  const at = card.querySelector(".menu").getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(at.left, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.max(8, Math.min(at.bottom + 4, innerHeight - menu.offsetHeight - 8))}px`;
  menu.firstElementChild.focus();
}

function entry(text, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("role", "menuitem");
  button.textContent = text;
  button.addEventListener("click", () => { closeMenu(); act(); });
  return button;
}

function closeMenu() {
  if (menu.hidden) return;
  menu.hidden = true;
  cardOf(menuOf)?.focus();
  menuOf = null;
}

menu.addEventListener("keydown", (event) => {
  const all = [...menu.children];
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") closeMenu();
  else if (step) all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest(".card .menu");
  if (button) { event.preventDefault(); openMenu(button.closest(".card")); return; }
  if (!menu.contains(event.target)) closeMenu();
});

// several at once

const toolbar = document.getElementById("picked");
const picked = () => allCards().filter((card) => card.classList.contains("picked"));

function pick(card, on) {
  card.classList.toggle("picked", on);
  card.querySelector(".pick").checked = on;
}

function clearPicked() {
  for (const card of picked()) pick(card, false);
  showPicked();
}

function showPicked() {
  const cards = picked();
  toolbar.hidden = cards.length === 0;
  if (!cards.length) return;
  const text = document.createElement("span");
  text.textContent = `${cards.length} selected`;
  const buttons = [...commonVerbs(cards).map((verb) => [words[verb][0], () => propose(picked(), verb)]), ["Clear", clearPicked]];
  toolbar.replaceChildren(text, ...buttons.map(([label, act]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button";
    button.textContent = label;
    button.addEventListener("click", act);
    return button;
  }));
}

board.addEventListener("change", (event) => {
  if (!event.target.matches(".pick")) return;
  pick(event.target.closest(".card"), event.target.checked);
  showPicked();
});

// by key

const current = () => document.activeElement?.closest?.(".card");

function focusCard(card) {
  if (!card) return;
  card.focus();
  card.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function step(by) {
  const card = current();
  focusCard(card ? (by > 0 ? card.nextElementSibling : card.previousElementSibling) : board.querySelector(".card"));
}

function aside(by) {
  const card = current();
  if (!card) { focusCard(board.querySelector(".card")); return; }
  const all = columns();
  const row = [...card.parentElement.children].indexOf(card);
  for (let at = all.indexOf(card.closest(".column")) + by; all[at]; at += by) {
    const cards = all[at].querySelectorAll(".card");
    if (cards.length) { focusCard(cards[Math.min(row, cards.length - 1)]); return; }
  }
}

for (const [names, act] of [
  [["j", "ArrowDown"], () => step(1)],
  [["k", "ArrowUp"], () => step(-1)],
  [["l", "ArrowRight"], () => aside(1)],
  [["h", "ArrowLeft"], () => aside(-1)],
]) {
  for (const name of names) onKey(name, () => act());
}
onKey("Enter", (event) => {
  if (event.target !== current()) return false;
  current().querySelector(".name").click();
  return true;
});
onKey("m", () => { const card = current(); if (!card) return false; openMenu(card); return true; });
onKey("x", () => {
  const card = current();
  if (!card) return false;
  pick(card, !card.classList.contains("picked"));
  showPicked();
  return true;
});
onKey("a", () => { document.getElementById("add").click(); });
onKey("Escape", (event) => { if (typing(event)) return false; clearPicked(); return true; });

for (const field of document.querySelectorAll("#filters select")) field.addEventListener("change", () => field.form.requestSubmit());

watchEnds();
