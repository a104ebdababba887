/** Light or dark: as the system says, unless somebody said otherwise here. */

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

/** Told of every change, whoever made it. */
export function whenThemeChanges(listener: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  window.addEventListener("themechange", listener);
  system.addEventListener("change", listener);
  return () => {
    window.removeEventListener("themechange", listener);
    system.removeEventListener("change", listener);
  };
}

/** A colour of the style sheet as the canvas needs it: resolved for the present theme. */
export function colourOf(variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
