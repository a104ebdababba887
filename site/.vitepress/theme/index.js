// The theme: VitePress's own, with the colours and pictures of this site, and an exchange on the first page.

import { useRoute } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { h, nextTick, onMounted, watch } from "vue";
import "./style.css";

/** What docs/express-redis.md shows, in short: the same payment three times. */
const EXCHANGE = [
  ["POST /payments", "order-17", "4200", "201 Created", "receipt 1", "good"],
  ["POST /payments", "order-17", "4200", "201 Created", "receipt 1, replayed", "good"],
  ["POST /payments", "order-17", "1", "422 conflict", "nothing ran", "bad"],
];

const exchange = () =>
  h(
    "div",
    {
      class: "exchange",
      role: "img",
      "aria-label":
        "The same payment is sent twice and charged once; another amount under its key is refused.",
    },
    EXCHANGE.map(([request, key, amount, status, result, kind]) =>
      h("div", { class: "turn" }, [
        h("div", { class: "sent" }, [
          h("b", request),
          h("span", `Idempotency-Key: ${key}`),
          h("span", `{"amount":${amount}}`),
        ]),
        h("div", { class: `answer ${kind}` }, [h("b", status), h("span", result)]),
      ]),
    ),
  );

/** VitePress marks the content of every page but the first one as the main part. */
function markFirstPage() {
  document.querySelector(".VPHome")?.setAttribute("role", "main");
}

const Layout = {
  setup() {
    const route = useRoute();
    onMounted(markFirstPage);
    watch(
      () => route.path,
      () => nextTick(markFirstPage),
    );
    return () => h(DefaultTheme.Layout, null, { "home-hero-image": exchange });
  },
};

export default { extends: DefaultTheme, Layout };
