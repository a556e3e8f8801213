// Times in the viewer's time zone. "3m ago" keeps counting.
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"]];
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of UNITS) if (whole >= size) return `${Math.floor(whole / size)}${unit}`;
  return `${whole}s`;
}

// The server wrote these times, so its clock counts. The page was made after it was asked for and
// before it was here; where the viewer's clock says otherwise, it is corrected by as little as will do.
const made = Date.parse(document.body.dataset.now);
const lead = Number.isNaN(made) ? 0 : Math.max(made - Date.now(), Math.min(made - Date.now() + performance.now(), 0));
export const now = () => Date.now() + lead;

const FORMS = {
  exact: (moment) => exact.format(moment),
  ago: (moment) => `${span((now() - moment) / 1000)} ago`,
  left: (moment) => (moment > now() ? `in ${span((moment - now()) / 1000)}` : "now"),
  // The shortest form, for a card.
  age: (moment) => span((now() - moment) / 1000),
};

function put(time) {
  const moment = new Date(time.dateTime);
  const form = FORMS[time.dataset.form];
  if (!form || Number.isNaN(moment.getTime())) return;
  const text = form(moment);
  if (time.textContent !== text) time.textContent = text;
  if (time.dataset.form !== "exact") time.title = exact.format(moment);
}

export function localise(root) {
  for (const time of root.querySelectorAll("time[data-form]")) put(time);
}

// The server draws hours and days, so it has to know the viewer's time zone. If it does not yet, on a
// first visit or after a journey, it is asked for the page once more.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const told = `rota_zone=${encodeURIComponent(zone)}`;
const isTold = () => document.cookie.split("; ").includes(told);
if (zone && !isTold()) {
  document.cookie = `${told}; path=/; max-age=31536000; samesite=strict`;
  const { zone: drawn } = document.body.dataset;
  if (isTold() && drawn && drawn !== zone) location.reload();
}

localise(document);
setInterval(() => { if (!document.hidden) localise(document); }, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) localise(document); });
