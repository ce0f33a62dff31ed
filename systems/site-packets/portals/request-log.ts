/** The requests to a portal, to check that its limit was kept and nothing was requested twice. */
import type { Fault } from "./faults.ts";

export interface PortalRequest {
  readonly site: string;
  readonly path: string;
  /**
   * The attempt at this document, from 1; 0 if the request did not reach a document: refused,
   * moved, unknown.
   */
  readonly attempt: number;
  /** The time of arrival, on the monotonic clock of this process (`performance.now`). */
  readonly atMs: number;
  /** The status of the answer; null if there was none. */
  readonly status: number | null;
  readonly fault: Fault["kind"];
}

/** Of one site. The latest are kept: a drill of hours must not fill the memory of its portals. */
export const REQUESTS_LOGGED_MAX = 20_000;

export class RequestLog {
  readonly #requests: PortalRequest[] = [];
  #next = 0;

  add(request: PortalRequest): void {
    this.#requests[this.#next] = request;
    this.#next = (this.#next + 1) % REQUESTS_LOGGED_MAX;
  }

  /** In the order in which they came. */
  list(): PortalRequest[] {
    return [...this.#requests.slice(this.#next), ...this.#requests.slice(0, this.#next)];
  }
}
