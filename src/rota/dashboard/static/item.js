// Editing an item: the form begins with the present values, and only changes are sent.
import { announce, ask, call } from "./act.js";
import { onKey } from "./keys.js";
import { refreshSoon } from "./parts.js";

const dialog = document.getElementById("dialog-edit");
const lines = (text) => text.split("\n").map((one) => one.trim()).filter(Boolean);

function changed(form, now) {
  const change = {};
  const { description, priority, labels } = form.elements;
  if (description.value.trim() !== now.title.trim()) change.description = description.value.trim();
  if (Number(priority.value) !== Number(now.priority)) change.priority = Number(priority.value);
  const wanted = lines(labels.value);
  if (wanted.join("\n") !== now.labels) change.labels = wanted;
  return change;
}

// Labels are sent as a whole, so what somebody else has added meanwhile would be lost.
function checkPresent(change, now) {
  const present = document.getElementById("edit")?.dataset || now;
  for (const [field, shown] of [["description", "title"], ["priority", "priority"], ["labels", "labels"]]) {
    if (field in change && present[shown] !== now[shown]) {
      throw new Error(`Somebody has changed the ${shown} meanwhile, to: ${present[shown].replaceAll("\n", ", ") || "none"}. Close this, and edit again.`);
    }
  }
}

function edit(button) {
  const now = { ...button.dataset };
  const form = dialog.querySelector("form");
  form.elements.description.value = now.title;
  form.elements.priority.value = now.priority;
  form.elements.labels.value = now.labels;
  ask(dialog, async () => {
    const change = changed(form, now);
    checkPresent(change, now);
    if (Object.keys(change).length) await call(`PATCH /work/${now.item}`, change);
    announce("Saved");
    refreshSoon();
  });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("#edit");
  if (button) edit(button);
});

for (const [key, id] of [["n", "note"], ["e", "edit"]]) {
  onKey(key, () => {
    const button = document.getElementById(id);
    button?.click();
    return Boolean(button);
  });
}
