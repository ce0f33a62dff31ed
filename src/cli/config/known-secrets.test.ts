import { expect, it } from "vitest";
import { listAddressSecrets, listEnvironmentSecrets } from "./known-secrets.ts";

it("takes values of variables with secret names as secrets, unless they are paths, switches or numbers", () => {
  const env = {
    PORTAL_TOKEN: "abcdefgh-1",
    PGPASSWORD: "hunter2-hunter2",
    TOKEN_LIMIT: "12345678",
    API_KEY: "short",
    SSH_PRIVATE_KEY: "/etc/keys/id",
    PATH: "/usr/bin:/usr/local/bin",
    EMPTY_SECRET: undefined,
  };
  expect(listEnvironmentSecrets(env)).toEqual(["abcdefgh-1", "hunter2-hunter2"]);
});

it("takes the password of an address as a secret, encoded and decoded", () => {
  expect(listAddressSecrets("postgres://app:p%40ss-word@db/jobs")).toEqual([
    "p%40ss-word",
    "p@ss-word",
  ]);
  expect(listAddressSecrets("postgres://app@db/jobs")).toEqual([]);
  expect(listAddressSecrets("jobs.db")).toEqual([]);
});
