// A run's log, as it grows. Lines are JSON objects; here they become text and nothing else. The page
// holds a bounded number of them, whatever a run prints.
import { onKey } from "./keys.js";

const MOST_LINES = 5000;
const MOST_CHARACTERS = 2000000;
const LONGEST_LINE = 10000;
const MOST_MATCHES = 1000;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;
const CONTROL = /\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

const panel = document.getElementById("log-panel");
const place = document.getElementById("log");
const note = document.getElementById("log-note");
const state = document.getElementById("log-state");
const search = document.getElementById("log-search");
const counted = document.getElementById("log-found");
const followButton = document.getElementById("log-follow");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

let source = null; // { run, offset, isFresh, stop }
let characters = 0;
let isCut = false; // earlier lines are only in the download
let follows = true;
let lastTop = 0;

const say = (text) => { if (state.textContent !== text) state.textContent = text; };

// lines

const plain = (text) => String(text ?? "").replace(CONTROL, "");

function who(entry) {
  if (entry.stream === "stderr" || entry.stream === "rota") return entry.stream;
  if (entry.type === "text" || entry.type === undefined || entry.type === null) return "";
  return plain(entry.tool || entry.type).slice(0, 40);
}

function parsed(line) {
  try {
    const entry = JSON.parse(line);
    if (entry !== null && typeof entry === "object" && !Array.isArray(entry)) return entry;
  } catch { /* shown as it is */ }
  return { text: line };
}

function put(tag, text, row) {
  const part = document.createElement(tag);
  part.textContent = text;
  row.append(part);
  return part;
}

function rowOf(line) {
  const entry = parsed(line);
  const row = document.createElement("div");
  const speaker = who(entry);
  row.className = speaker === "stderr" || speaker === "rota" ? `line ${speaker}` : "line";
  const moment = new Date(entry.ts ?? NaN);
  const time = put("time", Number.isNaN(moment.getTime()) ? "" : clock.format(moment), row);
  if (time.textContent) time.dateTime = moment.toISOString();
  if (speaker) put("b", speaker, row);
  let text = plain(entry.text);
  const more = text.length - LONGEST_LINE;
  if (more > 0) text = `${text.slice(0, LONGEST_LINE)} … ${more.toLocaleString()} more characters: see the download`;
  put("span", text, row);
  return row;
}

const size = (row) => row.lastChild.textContent.length;

function add(lines) {
  const fragment = document.createDocumentFragment();
  // Of many lines at once only those are made that will stay.
  const kept = lines.slice(-MOST_LINES);
  isCut ||= lines.length > kept.length;
  const rows = kept.map(rowOf);
  fragment.append(...rows);
  if (source.isFresh) clear();
  source.isFresh = false;
  place.append(fragment);
  for (const row of rows) characters += size(row);
  trim();
  if (query) find(rows.filter((row) => row.isConnected));
  if (follows) toEnd();
  lastTop = place.scrollTop;
}

function clear() {
  place.replaceChildren();
  characters = 0;
  matches = [];
}

function trim() {
  let gone = 0;
  while (place.childElementCount > MOST_LINES || (characters > MOST_CHARACTERS && place.childElementCount > 1)) {
    characters -= size(place.firstElementChild);
    place.firstElementChild.remove();
    gone += 1;
  }
  isCut ||= gone > 0;
  if (gone) matches = matches.filter((match) => match.row.isConnected);
  note.hidden = !isCut;
  note.textContent = `The last ${place.childElementCount.toLocaleString()} lines are shown; all of them are in the download.`;
}

// following

function follow(wanted) {
  follows = wanted;
  followButton.setAttribute("aria-pressed", String(wanted));
  place.classList.toggle("following", wanted);
  if (wanted) toEnd();
}

function toEnd() {
  place.scrollTop = place.scrollHeight;
  lastTop = place.scrollTop;
}

place.addEventListener("scroll", () => {
  const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 8;
  if (follows && place.scrollTop < lastTop - 1 && !atEnd) follow(false);
  else if (!follows && atEnd && place.scrollTop > lastTop) follow(true);
  lastTop = place.scrollTop;
});
followButton.addEventListener("click", () => follow(!follows));
onKey("f", () => follow(!follows));

// searching

let query = "";
let matches = []; // { row, start, end }
let at = -1;

function find(rows) {
  for (const row of rows) {
    const text = row.lastChild.textContent.toLowerCase();
    for (let start = text.indexOf(query); start >= 0 && matches.length < MOST_MATCHES; start = text.indexOf(query, start + query.length)) {
      matches.push({ row, start, end: start + query.length });
    }
  }
  show();
}

function rangeOf({ row, start, end }) {
  const node = row.lastChild.firstChild;
  const length = node.data.length; // lower case may be longer than what it stands for
  return new StaticRange({ startContainer: node, startOffset: Math.min(start, length), endContainer: node, endOffset: Math.min(end, length) });
}

function show() {
  const many = matches.length >= MOST_MATCHES ? `${MOST_MATCHES.toLocaleString()} or more` : String(matches.length);
  counted.textContent = !query ? "" : !matches.length ? "not found" : at < 0 ? `${many} found` : `${at + 1} of ${many}`;
  for (const row of place.querySelectorAll(".current")) row.classList.remove("current");
  matches[at]?.row.classList.add("current");
  if (!("highlights" in CSS)) return;
  CSS.highlights.set("log-found", new Highlight(...matches.map(rangeOf)));
  const current = new Highlight(...(matches[at] ? [rangeOf(matches[at])] : []));
  current.priority = 1;
  CSS.highlights.set("log-current", current);
}

function look() {
  const wanted = search.value.toLowerCase();
  if (wanted === query) return;
  query = wanted;
  matches = [];
  at = -1;
  if (!query) { show(); return; }
  find(place.querySelectorAll(".line"));
  if (matches.length) step(-1);
}

function step(by) {
  if (!matches.length) return;
  // The first look begins at the end, where the newest lines are.
  at = at < 0 ? (by > 0 ? 0 : matches.length - 1) : (at + by + matches.length) % matches.length;
  follow(false);
  matches[at].row.scrollIntoView({ block: "nearest" });
  lastTop = place.scrollTop;
  show();
}

let waiting = null;
search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 150); });
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  look();
  step(event.shiftKey ? -1 : 1);
});
document.getElementById("log-next").addEventListener("click", () => { look(); step(1); });
document.getElementById("log-previous").addEventListener("click", () => { look(); step(-1); });

// reading

const isGone = (mine) => mine !== source || mine.stop.signal.aborted;

async function read(mine) {
  let pause = FIRST_PAUSE;
  while (!isGone(mine)) {
    try {
      const began = mine.offset;
      if (await pump(mine)) return;
      if (mine.offset > began) pause = FIRST_PAUSE;
    } catch (error) {
      if (error.name === "AbortError") return;
    }
    if (isGone(mine)) return;
    say("Not connected: trying again …");
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

// True when there is nothing more to come.
async function pump(mine) {
  const answer = await fetch(`/runs/${encodeURIComponent(mine.run)}/log?follow=true&offset=${mine.offset}`, { signal: mine.stop.signal });
  if (answer.status === 401) location.assign(`/sign-in?next=${encodeURIComponent(location.pathname)}`);
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    say(problem.detail || `the server answered ${answer.status}`);
    return answer.status < 500;
  }
  const reader = answer.body.getReader();
  let rest = new Uint8Array(0);
  say("Live");
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    rest = take(mine, rest, value);
  }
  return hasEnded(mine);
}

const decoder = new TextDecoder();

// Whole lines are shown, and the offset stands behind them. An empty line is a sign of life that
// is not in the file.
function take(mine, rest, value) {
  const data = new Uint8Array(rest.length + value.length);
  data.set(rest);
  data.set(value, rest.length);
  const end = data.lastIndexOf(10) + 1;
  if (!end || isGone(mine)) return data;
  const lines = decoder.decode(data.subarray(0, end)).split("\n").slice(0, -1);
  const full = lines.filter((line) => line !== "");
  mine.offset += end - (lines.length - full.length);
  if (full.length) add(full);
  return data.slice(end);
}

async function hasEnded(mine) {
  const answer = await fetch(`/runs/${encodeURIComponent(mine.run)}`, { signal: mine.stop.signal });
  const { status } = answer.ok ? await answer.json() : {};
  if (status === undefined || status === "running") return false;
  say("It has ended");
  return true;
}

// A hidden page does not read: browsers have few connections to one server.
function begin() {
  const head = document.getElementById("log-head");
  const run = head.dataset.run;
  if (source && source.run === run) return;
  if (source) { source.stop.abort(); clear(); }
  source = null;
  for (const one of [place, document.getElementById("log-tools")]) one.hidden = !run;
  if (!run) return;
  document.getElementById("log-empty")?.remove();
  const offset = Number(head.dataset.from);
  isCut = offset > 0;
  source = { run, offset, isFresh: true, stop: new AbortController() };
  if (!document.hidden) read(source);
}

document.addEventListener("visibilitychange", () => {
  if (!source) return;
  source.stop.abort();
  source = { ...source, stop: new AbortController() };
  if (!document.hidden) read(source);
});

// The head is a part that is kept current: with the next run it names another one.
new MutationObserver(begin).observe(panel, { childList: true });
begin();
follow(true);
