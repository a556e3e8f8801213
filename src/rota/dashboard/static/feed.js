// The one connection to the server's feed. It resumes after the last event it has seen, so that
// nothing is missed or repeated. It says when the page may be out of date.
const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 10000;
const GATHER = 25; // ms; events within this time are passed on together
const PATIENCE = 4000;

const place = document.getElementById("feed");
const listeners = new Set();
let after = Number(document.body.dataset.lastEvent);
let socket = null;
let pause = FIRST_PAUSE;
let gathered = [];
let answer = null; // the timer that waits for a pong
let retry = null;

export const onEvents = (listener) => { listeners.add(listener); };

function say(state, text) {
  if (!place || place.dataset.state === state) return;
  place.dataset.state = state;
  place.querySelector(".text").textContent = text;
}

function tell(what) {
  for (const listener of listeners) listener(what);
}

function gather(event) {
  gathered.push(event);
  if (gathered.length > 1) return;
  setTimeout(() => {
    const events = gathered;
    gathered = [];
    tell({ events });
  }, GATHER);
}

function received(frame) {
  if (frame.type === "feed.resync") { after = frame.payload.after; socket.close(); return; }
  if ("request_id" in frame) {
    clearTimeout(answer);
    if (frame.type === "subscribe" && frame.ok) {
      pause = FIRST_PAUSE;
      say("on", "Live");
    } else if (!frame.ok) {
      tell({ refused: frame.error });
    }
    return;
  }
  after = frame.seq;
  gather(frame);
}

function connect() {
  clearTimeout(retry);
  const here = new URL("/ws", location.href);
  here.protocol = here.protocol.replace("http", "ws");
  const mine = new WebSocket(here);
  socket = mine;
  mine.onopen = () => mine.send(JSON.stringify({ request_id: "s", type: "subscribe", payload: { after } }));
  mine.onmessage = (message) => { if (mine === socket) received(JSON.parse(message.data)); };
  mine.onclose = () => { if (mine === socket) lost(); };
}

function lost() {
  clearTimeout(answer);
  say("off", "Not connected: this page may be out of date. Reconnecting …");
  clearTimeout(retry); // a connection that was given up may still say that it is closed
  retry = setTimeout(connect, pause * (0.5 + Math.random()));
  pause = Math.min(pause * 2, LONGEST_PAUSE);
}

// After sleep, a dead connection looks alive: send a ping before trusting it.
function probe() {
  if (document.hidden || socket.readyState === WebSocket.CONNECTING) return;
  if (socket.readyState !== WebSocket.OPEN) { pause = FIRST_PAUSE; connect(); return; }
  clearTimeout(answer);
  answer = setTimeout(() => { const dead = socket; lost(); dead.close(); }, PATIENCE);
  socket.send(JSON.stringify({ request_id: "p", type: "ping", payload: {} }));
}

if (!document.body.hasAttribute("data-still")) {
  connect();
  document.addEventListener("visibilitychange", probe);
  addEventListener("online", probe);
  addEventListener("pageshow", (event) => { if (event.persisted) probe(); });
  addEventListener("offline", () => say("off", "Not connected: this page may be out of date. Reconnecting …"));
}
