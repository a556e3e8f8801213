// A run's log, as it grows. Lines are JSON objects, shown as plain text only. The page holds a
// bounded number of them, whatever a run prints.
import { onKey } from "./keys.js";
import { signIn } from "./parts.js";

const MOST_LINES = 5000;
const MOST_CHARACTERS = 2000000;
const LONGEST_LINE = 10000;
const MOST_MATCHES = 1000;
const GATHER = 60;
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
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

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

// Lines that arrive together are put in place together. Of very many lines, only those that will
// stay are made.
let pending = [];

function add(lines) {
  if (!pending.length) setTimeout(placePending, GATHER);
  pending = pending.concat(lines);
}

function placePending() {
  const lines = pending;
  pending = [];
  if (!source || !lines.length) return;
  isCut ||= lines.length > MOST_LINES;
  const rows = lines.slice(-MOST_LINES).map(rowOf);
  if (source.isFresh) clear();
  source.isFresh = false;
  place.append(...rows);
  for (const row of rows) characters += size(row);
  trim();
  if (query) find(rows.filter((row) => row.isConnected));
  if (follows) toEnd();
}

function clear() {
  place.replaceChildren();
  characters = 0;
  matches = [];
}

function trim() {
  let count = place.childElementCount;
  const before = count;
  for (; count > MOST_LINES || (characters > MOST_CHARACTERS && count > 1); count -= 1) {
    characters -= size(place.firstElementChild);
    place.firstElementChild.remove();
  }
  isCut ||= count < before;
  matches = matches.filter((match) => match.row.isConnected);
  note.hidden = !isCut;
  note.textContent = `The last ${count.toLocaleString()} lines are shown; the download has all of them.`;
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
new ResizeObserver(() => { if (follows) toEnd(); }).observe(place); // e.g. a turned phone
followButton.addEventListener("click", () => follow(!follows));
onKey("f", () => { if (followButton.hidden) return false; follow(!follows); return true; });

// searching

let query = "";
let matches = []; // { row, start, end }, of the newest lines if there are very many
let isCapped = false;
let current = null;

function matchesIn(row) {
  const found = [];
  const text = row.lastChild.textContent.toLowerCase();
  for (let start = text.indexOf(query); start >= 0; start = text.indexOf(query, start + query.length)) {
    found.push({ row, start, end: start + query.length });
  }
  return found;
}

function find(rows) {
  const found = [];
  for (let index = rows.length - 1; index >= 0 && found.length < MOST_MATCHES; index -= 1) {
    found.push(...matchesIn(rows[index]).reverse());
  }
  const all = [...matches, ...found.reverse()];
  isCapped ||= all.length >= MOST_MATCHES;
  matches = all.slice(-MOST_MATCHES);
  show();
}

function rangeOf({ row, start, end }) {
  const node = row.lastChild.firstChild;
  const length = node.data.length; // text may become longer in lower case
  return new StaticRange({ startContainer: node, startOffset: Math.min(start, length), endContainer: node, endOffset: Math.min(end, length) });
}

function inWords() {
  if (!query) return "";
  if (!matches.length) return "no match";
  const many = isCapped ? `the last ${matches.length.toLocaleString()}` : matches.length.toLocaleString();
  const at = matches.indexOf(current);
  return at < 0 ? `${many} found` : `${(at + 1).toLocaleString()} of ${many}`;
}

function show() {
  if (!matches.includes(current)) current = null;
  counted.textContent = inWords();
  for (const row of place.querySelectorAll(".current")) row.classList.remove("current");
  current?.row.classList.add("current");
  if (!("highlights" in CSS)) return;
  CSS.highlights.set("log-found", new Highlight(...matches.map(rangeOf)));
  const here = new Highlight(...(current ? [rangeOf(current)] : []));
  here.priority = 1;
  CSS.highlights.set("log-current", here);
}

function look() {
  const wanted = search.value.toLowerCase();
  if (wanted === query) return false;
  query = wanted;
  matches = [];
  isCapped = false;
  current = null;
  if (!query) { show(); return true; }
  find(place.querySelectorAll(".line"));
  step(-1);
  return true;
}

// The first step begins at the end, where the newest lines are.
function step(by) {
  if (!matches.length) return;
  const at = matches.indexOf(current);
  current = at < 0 ? matches.at(by > 0 ? 0 : -1) : matches.at((at + by) % matches.length);
  follow(false);
  current.row.scrollIntoView({ block: "nearest" });
  lastTop = place.scrollTop;
  show();
}

let waiting = null;
search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 150); });
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  look() || step(event.shiftKey ? -1 : 1);
});
document.getElementById("log-next").addEventListener("click", () => look() || step(1));
document.getElementById("log-previous").addEventListener("click", () => look() || step(-1));

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
    say("Not connected. Reconnecting …");
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

// True when there is nothing more to come.
async function pump(mine) {
  const answer = await fetch(`/runs/${encodeURIComponent(mine.run)}/log?follow=true&offset=${mine.offset}`, { signal: mine.stop.signal });
  if (answer.status === 401) signIn();
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

// Only whole lines are shown, and the offset is after them. An empty line is a sign of life that
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
  say("The run has ended");
  followButton.hidden = true; // there is nothing more to come
  return true;
}

// A hidden page does not read: browsers have few connections to one server.
function begin() {
  const head = document.getElementById("log-head");
  const run = head.dataset.run;
  if (source && source.run === run) return;
  if (source) { source.stop.abort(); pending = []; clear(); }
  source = null;
  for (const one of [place, document.getElementById("log-tools")]) one.hidden = !run;
  followButton.hidden = "ended" in head.dataset;
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

// The head is a part that is kept current: when the next run begins, it names that run.
new MutationObserver(begin).observe(panel, { childList: true });
begin();
follow(true);
