import { expect, test } from "vitest";
import { isAddress, readAddress } from "./address.ts";

test("a store is a server if its name is an address, and a file otherwise", () => {
  expect(isAddress("postgres://localhost/app")).toBe(true);
  expect(isAddress("postgresql://localhost/app")).toBe(true);
  expect(isAddress("postgres.db")).toBe(false);
  expect(isAddress("./postgres:/x")).toBe(false);
});

test("an address names host, port, database, user, password and schema", () => {
  const text = "postgres://ann:s%40cret@db.example:6432/jobs?schema=batches&sslmode=disable";
  expect(readAddress(text)).toEqual({
    name: "postgres://ann@db.example:6432/jobs?schema=batches",
    schema: "batches",
    host: "db.example",
    port: 6432,
    database: "jobs",
    user: "ann",
    password: "s@cret",
    ssl: false,
  });
});

test("what an address leaves out is left to the environment, and its schema is sluice", () => {
  const address = readAddress("postgres:///jobs");
  expect(address).toEqual({
    name: "postgres:///jobs",
    schema: "sluice",
    database: "jobs",
    ssl: false,
  });
});

test("the name for people does not contain the password", () => {
  expect(readAddress("postgres://ann:hush@db.example/jobs").name).not.toContain("hush");
});

test("a remote server must prove its identity, unless the address says otherwise", () => {
  expect(readAddress("postgres://db.example/jobs").ssl).toEqual({ rejectUnauthorized: true });
  expect(readAddress("postgres://db.example/jobs?sslmode=no-verify").ssl).toEqual({
    rejectUnauthorized: false,
  });
  expect(readAddress("postgres://127.0.0.1/jobs").ssl).toBe(false);
  expect(readAddress("postgres:///jobs?host=/var/run/postgresql").ssl).toBe(false);
  expect(readAddress("postgres://localhost/jobs?sslmode=verify-full").ssl).toEqual({
    rejectUnauthorized: true,
  });
});

test("a server from the environment must prove its identity as well", () => {
  expect(readAddress("postgres:///jobs", { PGHOST: "db.example" }).ssl).toEqual({
    rejectUnauthorized: true,
  });
  expect(readAddress("postgres:///jobs", { PGHOST: "localhost" }).ssl).toBe(false);
});

test.each([
  ["postgres://db.example/jobs?sslmode=require", /sslmode "require" is unknown/],
  ["postgres://db.example/jobs?schema=Robert'); DROP", /schema name .* is not valid/],
  ["postgres://db.example/jobs?pool=3", /parameter pool is unknown/],
  ["postgres://db.example:port/jobs", /it is not a URL/],
  ["postgres://db.example/jobs?sslrootcert=/nowhere/ca.pem", /sslrootcert .* cannot be read/],
])("%s is refused", (address, message) => {
  expect(() => readAddress(address)).toThrow(message);
});
