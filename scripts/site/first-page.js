/** The opening of the first page, which VitePress shows above its text. */

const OPENING = {
  layout: "home",
  titleTemplate: "run an operation once, answer every retry",
  hero: {
    name: "nevertwice",
    text: "Run it once. Answer every retry.",
    tagline:
      "Clients retry, people double-click, queues redeliver and agents plan again. nevertwice makes sure that the charge, the e-mail or the booking behind them happens once, on the database that you already run.",
    actions: [
      { theme: "brand", text: "Five minutes", link: "/five-minutes" },
      { theme: "alt", text: "Which door do I need?", link: "/doors" },
      { theme: "alt", text: "Express and Redis", link: "/express-redis" },
    ],
  },
};

/**
 * The title and the first paragraph of the page give way to the opening.
 *
 * @param {string} markdown
 */
export function withOpening(markdown) {
  const rest = markdown.trim().split("\n\n").slice(2).join("\n\n");
  return `---\n${JSON.stringify(OPENING, null, 2)}\n---\n\n${rest}\n`;
}
