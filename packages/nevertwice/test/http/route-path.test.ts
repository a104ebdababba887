import { describe, expect, it } from "vitest";
import { matchedRoute, normalPath } from "../../src/http/route-path.ts";

const of = (path: string, ...patterns: string[]) => normalPath(path, { patterns });

describe("the path of a route", () => {
  it.each([
    ["/payments", "/payments", "/payments"],
    ["/payments/", "/payments", "/payments"],
    ["/PAYMENTS", "/payments", "/payments"],
    ["/Payments/", "/payments/", "/payments/"],
    ["/payments", "/payments/", "/payments/"],
    ["/%70ayments", "/payments", "/payments"],
    ["/", "/", "/"],
    ["/PAYMENTS/Ab%2Fc/CAPTURE/", "/payments/:id/capture", "/payments/Ab%2Fc/capture"],
    ["/PAYMENTS/1", "/payments/:id(\\d+)", "/payments/1"],
    ["/PAYMENTS/1", "/payments/:id{[0-9]+}", "/payments/1"],
    ["/PAYMENTS/1", "/payments/{id}", "/payments/1"],
    ["/PAYMENTS//1/", "/payments/:id", "/payments/1"],
    ["/PAYMENTS/1/", "/payments/:id{[0-9]+}", "/payments/1"],
    ["/PAYMENTS/1", "/payments/:id?", "/payments/1"],
    ["/PAYMENTS/", "/payments/:id?", "/payments"],
    ["/PAYMENTS/1/", "/payments{/:id}", "/payments/1"],
    ["/PAYMENTS/", "/payments{/:id}", "/payments"],
    ["/PAYMENTS/1.JSON/", "/payments/:id.json", "/payments/1.JSON"],
    ["/FILES/a/", "/files/:path(.*)", "/files/a/"],
    ["/FILES/a/", "/files/:path{.+}", "/files/a/"],
    ["/FILES/", "/files/*", "/files"],
    ["/FILES", "/files/*", "/files"],
    ["/FILES//", "/files/*", "/files//"],
    ["//FILES/a", "/files/*", "/files/a"],
    ["/FILES//a", "/files/*", "/files//a"],
    ["/caf%C3%A9/", "/café", "/café"],
    ["/FILES/A/b/", "/files/*", "/files/A/b/"],
    ["/FILES/A/b", "/files/*path", "/files/A/b"],
    ["/FILES/A/b", "/files/{proxy+}", "/files/A/b"],
  ])("%s of the pattern %s is %s", (path, pattern, normal) => {
    expect(of(path, pattern)).toBe(normal);
  });

  it.each([
    ["the pattern does not fit", "/PAYMENTS/", "/orders"],
    ["it has more segments", "/PAYMENTS/1", "/payments"],
    ["it has fewer segments", "/PAYMENTS", "/payments/:id"],
    ["a parameter is empty", "/PAYMENTS//capture", "/payments/:id/capture"],
    ["a parameter in front of a wildcard is empty", "//PAYMENTS/a", "/:shop/*"],
    ["the expression of a parameter may match the slash", "/PAYMENTS//1", "/payments/:id(.*)"],
    ["the pattern has an optional part in its middle", "/PAYMENTS/capture", "/payments{/:id}/capture"],
    ["the expression of a parameter has a slash", "/PAYMENTS/1", "/payments/:id([^/]+)"],
    ["an encoded slash stands where the pattern has a slash", "/PAYMENTS%2Fcapture", "/payments/capture"],
    ["an escape is broken", "/%E0%A4%A", "/payments"],
  ])("stays as it was sent if %s", (_why, path, pattern) => {
    expect(of(path, pattern)).toBe(path);
  });

  it("stays as it was sent without a pattern", () => {
    expect(normalPath("/PAYMENTS/", undefined)).toBe("/PAYMENTS/");
    expect(of("/PAYMENTS/")).toBe("/PAYMENTS/");
  });

  it("is not known where one of several patterns is no text", () => {
    expect(matchedRoute(["/payments", /orders/])).toBeUndefined();
    expect(matchedRoute(undefined)).toBeUndefined();
    expect(matchedRoute([["/payments"]], "/x")).toEqual({ patterns: ["/payments"], path: "/x" });
  });

  it("takes the pattern that fits, of several", () => {
    expect(of("/ORDERS/", "/payments", "/orders")).toBe("/orders");
  });

  it("leaves the part of an outer router as it was sent", () => {
    expect(normalPath("/API/PAYMENTS/", { patterns: ["/payments"], path: "/PAYMENTS/" })).toBe(
      "/API/payments",
    );
    expect(normalPath("/API/PAYMENTS/", { patterns: ["/payments"], path: "/elsewhere" })).toBe(
      "/API/PAYMENTS/",
    );
  });

  it("is that of a list of segments, for patterns in no framework's syntax", () => {
    const patterns = [[{ literal: "v1:batch" }, "parameter", "rest"]] as const;
    expect(normalPath("/V1:Batch/Ab/C//d/", { patterns })).toBe("/v1:batch/Ab/C//d/");
  });

  it("never makes one path of two parameter values", () => {
    const values = ["a", "A", "%61", "a%2Fb", "a%2fb", "a."];
    expect(new Set(values.map((value) => of(`/PAYMENTS/${value}`, "/payments/:id"))).size).toBe(
      values.length,
    );
  });
});
