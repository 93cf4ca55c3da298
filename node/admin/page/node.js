// What the page asks the node, and what it has heard last.
const $ = (id) => document.getElementById(id);

/** What all of the page shares: what the node says of itself, and its lanes and nodes as they were last; null before. */
export const seen = { info: { control: false }, lanes: null, nodes: null };

let token = sessionStorage.getItem("token") ?? "", asking = null;

async function call(path, options = {}) {
  options.headers = { ...options.headers, ...(token ? { Authorization: "Bearer " + token } : {}) };
  let response;
  try { response = await fetch(path, { ...options, signal: AbortSignal.timeout(8000) }); }
  catch {
    throw new TypeError(options.method ? "Nobody knows whether that was done: this node has not answered. Look again before you repeat it."
      : "This node does not answer: it has ended, or there is no way to it. The page asks again.");
  }
  if (response.status === 401) {
    await login(Boolean(token));
    if (!token) throw new Error("A token is needed.");
    return call(path, options);
  }
  if (!response.ok) {
    const text = await response.text();
    let detail = text;
    try { detail = JSON.parse(text).detail ?? text; } catch { /* it is a sentence already */ }
    throw Object.assign(new Error(detail), { status: response.status });
  }
  return response;
}

export const read = async (path) => (await call(path)).json();
export const remove = async (path) => (await call(path, { method: "DELETE" })).json();
export const send = async (method, path, body) =>
  (await call(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

/** Asks for the token, once at a time. */
function login(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = $("login");
    $("login-wrong").hidden = !wrong;
    dialog.addEventListener("close", () => {
      token = $("token").value; sessionStorage.setItem("token", token); $("token").value = ""; asking = null; resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** Who changes something, for the log. */
export const me = () => seen.info.caller || "page";

/** Says which node an id means: by its host, where only one of that host is known. */
export function nodeName(id) {
  const all = seen.nodes?.nodes ?? [], n = all.find((o) => o.id === id);
  if (!n?.host) return "node " + id.slice(0, 8);
  return all.filter((o) => o.host === n.host).length > 1 ? `${n.host} (${id.slice(0, 8)})` : n.host;
}

const patience = 20e3; // for how long text that somebody has marked stays as it is
let markedAt = 0;
document.addEventListener("selectionchange", () => { markedAt = Date.now(); });

/**
 * Replaces children, and gives the focus back to the one that had it. While somebody marks text in there, to copy it,
 * all stays as it is for a while.
 */
export function redraw(parent, children) {
  const marked = getSelection();
  if (!marked.isCollapsed && parent.contains(marked.anchorNode) && Date.now() - markedAt < patience) return;
  const key = document.activeElement?.dataset?.key;
  parent.replaceChildren(...children);
  if (key && document.activeElement === document.body) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}
