// What every page has: running times, the live feed, buttons that act, keys.
import "./act.js";
import "./keys.js";
import "./parts.js";
import "./times.js";

document.documentElement.classList.add("js");
