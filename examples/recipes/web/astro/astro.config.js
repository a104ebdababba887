import node from "@astrojs/node";

export default {
  output: "server",
  adapter: node({ mode: "standalone" }),
  // The names of your site. Astro refuses the forms of hosts that it does not know.
  security: { allowedDomains: [{ hostname: "127.0.0.1" }] },
};
