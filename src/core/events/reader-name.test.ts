import { expect, test } from "vitest";
import { nameGroupReader, readGroupName } from "./reader-name.ts";

test("a group's reader is read back as what it was made of", () => {
  expect(readGroupName(nameGroupReader("email", "mailer"))).toEqual({
    topic: "email",
    group: "mailer",
  });
});

test("a name that people give to subscribers is no group", () => {
  for (const name of ["mail", "a/b:c@d.e_f-g", ""]) expect(readGroupName(name)).toBeNull();
});
