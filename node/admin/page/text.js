// Elements, and texts for people. What others have chosen (ids, keys, lanes, reasons, words of a server) goes through
// foreign: it is put in as text, apart from our sentence in which it stands, and with what cannot be seen escaped. So it
// can neither turn our words around nor look like other text.

/** What is printed as it is: the rule of Go's unicode.IsPrint, by which the commands escape as well. */
const unseen = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;
const short = { 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r" };

function escaped(c) {
  const code = c.codePointAt(0), hex = code.toString(16);
  return short[code] ?? (code < 0x80 ? "\\x" + hex.padStart(2, "0") : code < 0x10000 ? "\\u" + hex.padStart(4, "0") : "\\U" + hex.padStart(8, "0"));
}

/** Returns a text with what cannot be seen escaped. */
export const visible = (text) => String(text).replace(unseen, escaped);

/** Puts a text of others into a field, as visible does, and takes it out again as it was, or as somebody has changed it. */
export function fill(field, text) { field.value = visible(text); field.dataset.holds = text; }
export const content = (field) => (field.value === visible(field.dataset.holds ?? "") ? field.dataset.holds ?? "" : field.value);

/** Returns a text of others for a sentence that is an attribute, which has no elements in it. */
export const isolated = (text) => "\u2068" + visible(text) + "\u2069";

/** Makes an element. Children are elements, texts, and lists of these; nothing comes of null. */
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  const role = name === "th" ? "rowheader" : { tr: "row", td: "cell" }[name];
  if (role) e.setAttribute("role", role); // on a small screen it is drawn as a block, and a browser no longer takes it for one
  for (const [k, v] of Object.entries(attributes)) {
    if (v === null || v === undefined) continue;
    if (k === "class") e.className = v; else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v);
  }
  e.append(...nodes(children));
  return e;
}

/** Returns what Element.append takes. Whatever the text, nothing in it steers how it is drawn. */
export const nodes = (children) => [children].flat(Infinity).filter((c) => c !== null && c !== undefined && c !== "")
  .map((c) => (c instanceof Node ? c : visible(c)));

/**
 * Shows a text of others, from left to right as machines read it. Lines are kept where they are asked for, as in the
 * value of a message.
 */
export function foreign(text, { lines = false } = {}) {
  const parts = [];
  let from = 0;
  text = String(text);
  for (const m of text.matchAll(unseen)) {
    if (lines && (m[0] === "\n" || m[0] === "\t")) continue;
    parts.push(text.slice(from, m.index), el("span", { class: "escaped" }, escaped(m[0])));
    from = m.index + m[0].length;
  }
  parts.push(text.slice(from));
  const e = el("bdi", { dir: "ltr", class: lines ? "lines" : null });
  e.append(...parts.filter((p) => p !== ""));
  return e;
}

/** Shows a sentence of the node, which may have words of others in it. Instants in it get the local time, too. */
export function said(text) {
  const e = el("bdi", { dir: "ltr" });
  let from = 0;
  for (const m of String(text).matchAll(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) UTC/g)) {
    const at = new Date(`${m[1]}T${m[2]}Z`);
    if (Number.isNaN(at.getTime())) continue;
    e.append(...nodes([text.slice(from, m.index), time(at, m[0])]));
    from = m.index + m[0].length;
  }
  e.append(...nodes(String(text).slice(from)));
  return e;
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const state = (kind, sign, ...text) => el("span", { class: kind }, sign + " ", text);

/** Links. data-key names what has the focus, for when it is drawn anew. */
export const laneHref = (name) => "#/lanes/" + encodeURIComponent(name);
export const laneLink = (name, where = "") => el("a", { href: laneHref(name), "data-key": where + " lane " + name }, foreign(name));
export const messageLink = (id, where = "") => el("a", { href: "#/messages/" + encodeURIComponent(id), "data-key": where + " message " + id }, foreign(id));

// ---- Numbers and times

/** clocks has how much the clock of the node, and that of the store, is ahead of this machine's. */
export const clocks = { ahead: 0, storeAhead: 0 };

export const count = (c) => c.unknown ? "?" : (c.by_statistics ? "~" : "") + c.n.toLocaleString("en") + (c.estimated && !c.by_statistics ? "+" : "");
export const plural = (c, one, many = one + "s") => count(c) + " " + (c.n === 1 && !c.unknown ? one : many);

/** Says how long something is, with two units where one is too coarse. */
export function roughly(seconds) {
  const s = Math.abs(seconds), two = (n, unit, rest, of) => n + " " + unit + (rest ? ` ${rest} ${of}` : "");
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 9.95) return s.toFixed(1) + " s";
  if (s < 119.5) return Math.round(s) + " s";
  const minutes = Math.round(s / 60), hours = Math.round(s / 3600);
  if (minutes < 60) return minutes + " min";
  if (minutes < 2880) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const days = Math.floor(hours / 24);
  return days < 30 ? two(days, "days", hours % 24, "h") : Math.round(s / 86400).toLocaleString("en") + " days";
}

/** Says how far an instant is away, in whole seconds: what is shown is a look or two old. */
export function ago(instant, now = Date.now() + clocks.ahead) {
  const s = Math.round((now - new Date(instant)) / 1000);
  if (s === 0) return "just now";
  return s > 0 ? lasting(s) + " ago" : "in " + lasting(s);
}

/** Says how long something takes or has taken, in whole seconds. */
export function lasting(seconds) {
  const s = Math.round(Math.abs(seconds));
  return s < 10 ? s + " s" : roughly(s);
}

/** Says when the next message falls due. One whose time has come since the lanes were counted is coming out. */
export const next = (instant) => new Date(instant) - clocks.ahead <= Date.now() ? "now" : ago(instant);

const utc = (at) => at.toISOString().replace("T", " ").replace("Z", " UTC");

/** Says what the clock on the wall shows at an instant where the reader is; "" if that is UTC. */
function local(at, seconds) {
  if (at.getTimezoneOffset() === 0) return "";
  const two = (n) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(at).find((p) => p.type === "timeZoneName").value;
  return (day === at.toISOString().slice(0, 10) ? "" : day + " ") + `${two(at.getHours())}:${two(at.getMinutes())}`
    + (seconds ? ":" + two(at.getSeconds()) : "") + " " + zone;
}

/** Shows an instant in UTC, and beside it the local time, unless that is UTC. text is what to show in place of UTC. */
export function time(instant, text = "") {
  const at = new Date(instant), here = local(at, at.getUTCSeconds() !== 0);
  return el("time", { datetime: at.toISOString() }, text || utc(at), here && el("span", { class: "local" }, ` (${here})`));
}

/** Shows an instant of today by its clock alone, and others whole. */
export function clock(instant) {
  const at = new Date(instant);
  return Date.now() - at > 12 * 3600e3 ? time(at) : time(at, at.toISOString().slice(11, 19) + " UTC");
}

/** Shows a minute, for what begins and ends with minutes. */
export const minute = (instant) => time(instant, new Date(instant).toISOString().slice(0, 16).replace("T", " ") + " UTC");
