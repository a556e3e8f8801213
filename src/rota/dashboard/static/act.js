// Buttons that call the API: data-call="POST /work/x/retry", data-body, data-dialog, data-done, and
// data-link="/items/" where the answer is an item that may be out of sight.
// A dialog's form becomes the body. A refusal is explained next to the button that was pressed.
import { refreshSoon, signIn } from "./parts.js";

const messages = document.getElementById("messages");

export function announce(text) {
  document.getElementById("announce").textContent = text;
}

export const complain = (text) => post("message", text);

function post(kind, ...content) {
  const line = document.createElement("p");
  line.className = kind;
  line.append(...content);
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button quiet";
  close.textContent = "Close";
  close.addEventListener("click", () => line.remove());
  line.append(" ", close);
  messages.replaceChildren(line);
}

class Refusal extends Error {
  constructor(problem, status) {
    super(explain(problem, status));
    this.problem = problem;
    this.status = status;
  }
}

// An answer may be a proxy's.
const errorsOf = (problem) =>
  (Array.isArray(problem?.errors) ? problem.errors : []).filter((one) => one.field && one.message);

function explain(problem, status) {
  const text = problem.detail || problem.title || `the server answered ${status}`;
  const errors = errorsOf(problem).map((one) => one.message).filter((one) => !text.includes(one));
  return `${text[0].toUpperCase()}${text.slice(1)}.${errors.length ? ` ${errors.join("; ")}` : ""}`.replace("..", ".");
}

// Idempotency keys of requests without an answer: the same request again reuses its key.
const unheard = new Map();

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");

// Resolves to the answer's JSON; throws a Refusal that says why.
export async function call(what, body) {
  const [method, address] = what.split(" ");
  const asked = `${what} ${JSON.stringify(body)}`;
  const key = unheard.get(asked) ?? newKey();
  unheard.set(asked, key);
  let answer;
  let text;
  try {
    answer = await fetch(address, {
      method,
      headers: { "content-type": "application/json", accept: "application/json", "idempotency-key": key },
      body: method === "DELETE" || body === undefined ? undefined : JSON.stringify(body),
    });
    text = await answer.text();
  } catch {
    throw new Refusal({ detail: "the server did not answer, so the change may not have been made; try again" }, 0);
  }
  if (answer.status < 500) unheard.delete(asked);
  if (answer.status === 401) signIn();
  const content = read(text);
  if (!answer.ok) throw new Refusal(content || {}, answer.status);
  return content;
}

function read(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null; // a proxy's answer
  }
}

// A form's fields by name: empty ones are left out, numbers are numbers, lists are split at commas.
function bodyOf(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || (field.type === "checkbox" && !field.checked)) continue;
    const value = field.value.trim();
    if (value === "") continue;
    if (field.type === "number") body[field.name] = Number(value);
    else if (field.type === "checkbox") body[field.name] = true;
    else if (field.dataset.as === "list") body[field.name] = value.split(",").map((one) => one.trim()).filter(Boolean);
    else body[field.name] = value;
  }
  return body;
}

async function send(button, body) {
  button.disabled = true;
  try {
    const answer = await call(button.dataset.call, body);
    messages.replaceChildren();
    const done = button.dataset.done || `${button.textContent.trim()}: done`;
    if (button.dataset.link) post("message done", `${done}: `, linkTo(answer, button.dataset.link));
    else announce(done);
    refreshSoon();
    return true;
  } finally {
    button.disabled = false;
    if (document.activeElement === document.body) button.focus(); // a disabled one loses it
  }
}

function linkTo(item, place) {
  const link = document.createElement("a");
  link.href = `${place}${item.id}`;
  link.dir = "auto";
  link.textContent = item.description.length > 100 ? `${item.description.slice(0, 100)}…` : item.description;
  return link;
}

// A browser takes spaces for an answer; they are not sent, so the field would be empty.
function isComplete(form) {
  for (const field of form.elements) if (field.required && !field.value.trim()) field.value = "";
  return form.reportValidity();
}

// The message in the form's own words, and the focus on the first field that it is about.
function pointOut(form, error) {
  const told = errorsOf(error.problem).map((wrong) => placed(form, wrong));
  if (!told.length || !told.every(({ name }) => name)) return error.message;
  told[0].field.focus();
  return told.map(({ name, message }) => `${name}: ${message}.`).join(" ");
}

function placed(form, { field: place, message }) {
  const [, base, index] = /^(.*?)(?:\[(\d+)\])?$/s.exec(place);
  const field = form.elements.namedItem(base);
  const label = field?.labels?.[0]?.firstChild.textContent.trim();
  const name = label && index ? `${label} (number ${Number(index) + 1})` : label;
  return { field, name, message: message.replace(`${place}: `, "") };
}

// Opens a dialog with a form, which calls `act(body)`. The dialog closes on success. It may be closed
// by hand, and opened for something else, before the answer is there.
export function ask(dialog, act) {
  const form = dialog.querySelector("form");
  const problem = dialog.querySelector(".problem") || document.createElement("p");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = "";
  form.insertBefore(problem, form.querySelector(".tools")); // so that it is never below the window
  // Enter presses a form's first submit button, which must not be the one that closes.
  for (const button of form.querySelectorAll("button[value=close]")) {
    button.type = "button";
    button.onclick = () => dialog.close();
  }
  let isSending = false;
  const submit = async (event) => {
    event.preventDefault();
    if (isSending || !isComplete(form)) return;
    isSending = true;
    problem.textContent = "";
    try {
      await act(bodyOf(form));
      if (form.onsubmit === submit) { form.reset(); dialog.close(); }
    } catch (error) {
      if (form.onsubmit !== submit || !dialog.open) { complain(error.message); return; }
      problem.textContent = pointOut(form, error);
      (form.querySelector(".tools") || problem).scrollIntoView({ block: "nearest" });
      problem.scrollIntoView({ block: "nearest" });
    } finally {
      isSending = false;
    }
  };
  form.onsubmit = submit;
  const opener = document.activeElement.id;
  // What had the focus may have been replaced, and the browser looks for the old one.
  dialog.onclose = () => { if (document.activeElement === document.body) document.getElementById(opener)?.focus(); };
  dialog.showModal();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-call], button[data-dialog]");
  if (!button || event.defaultPrevented) return;
  const fixed = button.dataset.body ? JSON.parse(button.dataset.body) : {};
  if (button.dataset.dialog) {
    ask(document.getElementById(button.dataset.dialog), (body) => send(button, { ...fixed, ...body }));
    return;
  }
  try {
    await send(button, fixed);
  } catch (error) {
    complain(error.message);
  }
});
