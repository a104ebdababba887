/** The colour theme: light, dark, or the theme of the system, which is the default. */

export type Theme = "system" | "light" | "dark";

const NAME = "nevertwice-theme";

export function chosenTheme(): Theme {
  const kept = localStorage.getItem(NAME);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function chooseTheme(theme: Theme): void {
  if (theme === "system") localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, theme);
  applyTheme();
}

export function applyTheme(): void {
  const theme = chosenTheme();
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  window.dispatchEvent(new Event("themechange"));
}

/** Calls the listener when the user or the system changes the theme. */
export function whenThemeChanges(listener: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  window.addEventListener("themechange", listener);
  system.addEventListener("change", listener);
  return () => {
    window.removeEventListener("themechange", listener);
    system.removeEventListener("change", listener);
  };
}

/** A colour variable of the style sheet, resolved for the current theme, as a canvas needs it. */
export function resolveColour(variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
