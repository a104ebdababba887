/**
 * The script that fills the hidden field in the browser, so that HTML never contains a key: a page that a cache, a CDN or a
 * build shares would give one key to many people.
 *
 * - `formdata` fires whenever the browser collects a form: for a click, for `form.submit()`, and for `new FormData(form)`. The
 *   first time makes the key; a second click, and a reload of the answer, send the same one.
 * - Who comes back to the page and sends the same content again means the same order. Browsers keep the whole page, and with it
 *   the field, or load the page anew and restore fields, but not hidden ones; so the key is in the storage of the tab too. A
 *   page that is opened or reloaded begins without a key.
 * - `reset` empties the field. React, SvelteKit and others reset a form once its action has succeeded.
 */
export const keyScript = `(() => {
  if (window.nevertwiceKeys) return;
  window.nevertwiceKeys = true;
  const MARK = "[data-idempotency-key]";
  const all = () => [...document.querySelectorAll(MARK)];
  const place = (field) => "nevertwice:" + location.pathname + location.search + ":" + all().indexOf(field);
  const stored = (field, key) => {
    try {
      if (key) sessionStorage.setItem(place(field), key);
      else if (key === "") sessionStorage.removeItem(place(field));
      else return sessionStorage.getItem(place(field)) || "";
    } catch {}
    return "";
  };
  const set = (field, key) => {
    field.value = key;
    stored(field, key);
  };
  const newKey = () =>
    Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const fieldsOf = (form) => [...form.elements].filter((field) => field.matches(MARK));
  addEventListener("formdata", ({ target, formData }) => {
    for (const field of fieldsOf(target)) {
      if (field.value === "") set(field, newKey());
      formData.set(field.name, field.value);
    }
  }, true);
  addEventListener("reset", ({ target }) => {
    for (const field of fieldsOf(target)) set(field, "");
  }, true);
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) return;
    const [entry] = performance.getEntriesByType("navigation");
    const isBack = entry !== undefined && entry.type === "back_forward";
    for (const field of all()) set(field, isBack ? stored(field) : "");
  });
})();`;
