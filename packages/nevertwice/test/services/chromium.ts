/** Debian's Chromium, as tests of pages drive it. */
import { type Browser, chromium } from "playwright-core";
import type { TestContext } from "vitest";
import { find, NotInstalled } from "./packages.ts";

export interface ChromiumOptions {
  /** Keeps whole pages to come back to, as browsers of users do. Playwright turns it off otherwise. */
  readonly keepsPages?: boolean;
}

/** Skips the test where Chromium is not installed; `installMissing(["chromium"])` installs it. */
export async function launchChromium(
  { skip }: Pick<TestContext, "skip">,
  { keepsPages = false }: ChromiumOptions = {},
): Promise<Browser> {
  let executablePath: string;
  try {
    executablePath = find("chromium");
  } catch (error) {
    if (error instanceof NotInstalled) return skip(error.message);
    throw error;
  }
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
    ignoreDefaultArgs: keepsPages ? ["--disable-back-forward-cache"] : [],
  });
}
