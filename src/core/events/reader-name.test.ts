import { expect, test } from "vitest";
import { nameGroupReader, readGroupName } from "./reader-name.ts";

test("a group's reader name is parsed into its topic and group", () => {
  expect(readGroupName(nameGroupReader("email", "mailer"))).toEqual({
    topic: "email",
    group: "mailer",
  });
});

test("a subscriber's name is not a group", () => {
  for (const name of ["mail", "a/b:c@d.e_f-g", ""]) expect(readGroupName(name)).toBeNull();
});
