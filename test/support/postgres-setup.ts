/**
 * One PostgreSQL server for all tests of a run. It starts when the first test asks for it, so a run
 * without such tests pays nothing.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";
import { type PostgresServer, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where a test asks for the address of the server. */
    readonly postgresAsked: string;
  }
}

const REFUSED = 500;

/** For vitest's `globalSetup`. Projects inherit it, and what the root project provides. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (!project.isRootProject()) return undefined;
  let started: Promise<PostgresServer> | null = null;
  const desk = createServer((_request, response) => {
    // Files share processes: a connection that is kept for the next question may be closed by then.
    response.setHeader("connection", "close");
    started ??= startPostgres();
    started.then(
      ({ address }) => response.end(address),
      (error: unknown) => response.writeHead(REFUSED).end(String(error)),
    );
  });
  desk.listen(0, "127.0.0.1");
  await once(desk, "listening");
  project.provide("postgresAsked", `http://127.0.0.1:${(desk.address() as AddressInfo).port}/`);
  return async () => {
    desk.closeAllConnections();
    desk.close();
    await started?.then(
      (server) => server.stop(),
      () => undefined,
    );
  };
}

/** The address of the run's server. */
export async function askForPostgres(): Promise<string> {
  const response = await fetch(inject("postgresAsked"));
  const said = await response.text();
  if (!response.ok) throw new Error(said);
  return said;
}
