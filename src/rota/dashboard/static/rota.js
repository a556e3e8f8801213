// Keeps the page current: an event says that something moved, and the page is fetched anew.
// The server renders and escapes; nothing here builds markup from text.
const live = document.getElementById("live");
let after = Number(document.body.dataset.lastEvent);
let wanted = false;
let busy = false;

function say(text, state) {
  live.textContent = text;
  live.className = state;
}

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (time.textContent === time.getAttribute("datetime")) time.textContent = moment.toLocaleString();
    time.title = moment.toLocaleString();
  }
}

async function refresh() {
  if (busy) { wanted = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    localTimes(page);
    document.querySelector("main").replaceWith(page.querySelector("main"));
    document.title = page.title;
  } catch { /* the stream says when the server is away */ }
  busy = false;
  if (wanted) { wanted = false; setTimeout(refresh, 100); }
}

function follow() {
  const stream = new EventSource(`/events?after=${after}`);
  stream.onopen = () => say("Live", "on");
  stream.onerror = () => {
    say("Not connected: what you see may be old. Trying again …", "off");
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
  const moved = (event) => { after = Number(event.lastEventId); refresh(); };
  stream.onmessage = moved;
  for (const type of ["submitted", "dispatched", "started", "completed", "failed", "blocked", "resumed",
    "handed_over", "released", "reopened", "retried", "cancelled", "edited", "noted", "held", "unheld",
    "unblocked", "late_result"]) stream.addEventListener(`work.${type}`, moved);
}

localTimes(document);
follow();
