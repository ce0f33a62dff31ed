/** A server on another host must prove its identity, unless the address says otherwise. */
import pg from "pg";
import { afterEach, expect, test } from "vitest";
import { createEngine, definePipeline } from "../../../src/index.ts";
import { type Certificates, makeCertificates } from "../../support/certificates.ts";
import { chooseUser } from "../../support/postgres-programs.ts";
import { askForPostgres } from "../../support/postgres-setup.ts";
import { type PostgresServer, startOwnPostgres } from "../../support/postgres-server.ts";

const servers: PostgresServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

async function startWithTls(name: string): Promise<Certificates & { address: string }> {
  const certificates = await makeCertificates(name, chooseUser());
  const { certificate, key } = certificates;
  const settings = { ssl: "on", ssl_cert_file: certificate, ssl_key_file: key };
  const server = await startOwnPostgres({ settings });
  servers.push(server);
  return { ...certificates, address: server.address };
}

function addTo(address: string, parameters: Record<string, string>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** The sessions of Sluice: whether they are encrypted, each answer once. */
async function listEncrypted(address: string): Promise<boolean[]> {
  const client = new pg.Client(address);
  await client.connect();
  try {
    const { rows } = await client.query<{ ssl: boolean }>(
      `SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid
       WHERE a.application_name = 'sluice'`,
    );
    return rows.map(({ ssl }) => ssl);
  } finally {
    await client.end();
  }
}

const double = definePipeline({ name: "double", process: (n: number) => n * 2 });

test("a server with a certificate of the named authority is accepted, and everything is encrypted", async () => {
  const { address, authority } = await startWithTls("IP:127.0.0.1");
  const engine = await createEngine({ store: addTo(address, { sslrootcert: authority }) });
  try {
    const batch = await engine.submit(double, [1, 2, 3]);
    expect(await batch.wait()).toMatchObject({ state: "succeeded" });
    expect(await listEncrypted(address)).toEqual([true]);
  } finally {
    await engine.close();
  }
});

test.each([
  ["of an unknown authority", "IP:127.0.0.1", false],
  ["of another host", "DNS:elsewhere.test", true],
])("a server with a certificate %s is refused with a hint", async (_what, name, knowsAuthority) => {
  const { address, authority } = await startWithTls(name);
  const trust = knowsAuthority ? { sslrootcert: authority } : { sslmode: "verify-full" };
  await expect(createEngine({ store: addTo(address, trust) })).rejects.toMatchObject({
    code: "STORE_UNTRUSTED",
    hint: expect.stringMatching(/sslrootcert/) as string,
  });
  const careless = await createEngine({ store: addTo(address, { sslmode: "no-verify" }) });
  await careless.close();
});

test("a server without TLS is refused if the address asks for TLS", async () => {
  const address = await askForPostgres();
  await expect(
    createEngine({ store: addTo(address, { sslmode: "verify-full" }) }),
  ).rejects.toMatchObject({
    code: "STORE_UNTRUSTED",
    hint: expect.stringMatching(/sslmode/) as string,
  });
});
