/** The log of a portal is bounded and keeps the latest requests. */
import { expect, test } from "vitest";
import { REQUESTS_LOGGED_MAX, RequestLog } from "./request-log.ts";

test("a full log drops the oldest requests and keeps the order of the others", () => {
  const log = new RequestLog();
  for (let atMs = 0; atMs < REQUESTS_LOGGED_MAX + 3; atMs++) {
    log.add({ site: "site-01", path: "/", attempt: 0, atMs, status: 404, fault: "none" });
  }
  const times = log.list().map(({ atMs }) => atMs);
  expect(times.length).toBe(REQUESTS_LOGGED_MAX);
  expect(times[0]).toBe(3);
  expect(times).toEqual(times.toSorted((one, two) => one - two));
});
