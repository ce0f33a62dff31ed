/**
 * One PostgreSQL server for all tests of a run that want one: the first that asks has it started, and
 * runs of which none asks pay nothing.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inject } from "vitest";
import type { TestProject } from "vitest/node";
import { type PostgresServer, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the run says the address of its server. */
    readonly postgresAsked: string;
  }
}

const REFUSED = 500;

/** For vitest's `globalSetup`. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  let started: Promise<PostgresServer> | null = null;
  const desk = createServer((_request, response) => {
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
