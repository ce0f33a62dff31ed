/**
 * Certificates that are valid for an hour: an authority, and a server certificate that it signed.
 */
import { spawnSync } from "node:child_process";
import { chown, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installProgram } from "./installed-program.ts";
import type { RunsAs } from "./postgres-programs.ts";

export interface Certificates {
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}

/**
 * `name`: the server's name in the certificate, in the notation of openssl: IP:127.0.0.1 or
 * DNS:example.test.
 */
export async function makeCertificates(name: string, { uid, gid }: RunsAs): Promise<Certificates> {
  installProgram("openssl", "openssl");
  const folder = await mkdtemp(join(tmpdir(), "sluice-tls-"));
  const at = (file: string): string => join(folder, file);
  const newKey = ["-newkey", "rsa:2048", "-nodes", "-days", "1"];
  run(
    "req",
    "-x509",
    ...newKey,
    "-subj",
    "/CN=authority",
    "-keyout",
    at("ca.key"),
    "-out",
    at("ca.pem"),
  );
  run(
    "req",
    ...newKey.slice(0, 3),
    "-subj",
    "/CN=server",
    "-keyout",
    at("key"),
    "-out",
    at("request"),
  );
  await writeFile(at("names"), `subjectAltName=${name}\n`);
  const signs = ["-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "1"];
  run("x509", "-req", "-in", at("request"), ...signs, "-extfile", at("names"), "-out", at("pem"));
  if (uid !== undefined && gid !== undefined) {
    for (const path of [folder, at("key"), at("pem")]) await chown(path, uid, gid);
  }
  return { authority: at("ca.pem"), certificate: at("pem"), key: at("key") };
}

function run(...args: readonly string[]): void {
  const { status, stderr } = spawnSync("openssl", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`openssl ${args[0] ?? ""}: ${stderr}`);
}
