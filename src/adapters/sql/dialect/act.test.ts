import { describe, expect, test } from "vitest";
import { type Act, answered, runAct, runNow, together } from "./act.ts";

/** An answer that comes later, and a list of what was asked. */
function makeServer() {
  const asked: string[] = [];
  const open: (() => void)[] = [];
  function* ask(what: string, fault?: Error): Act<string> {
    asked.push(what);
    return (yield new Promise((resolve, reject) => {
      open.push(() => (fault === undefined ? resolve(`${what}!`) : reject(fault)));
    })) as string;
  }
  const answer = async (): Promise<void> => {
    for (const one of open.splice(0)) one();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  };
  return { asked, ask, answer };
}

describe("a rule on a server", () => {
  test("asks together what is asked together, and waits once", async () => {
    const { asked, ask, answer } = makeServer();
    function* rule(): Act<string[]> {
      const [a, , c] = yield* together(ask("a"), answered("b"), ask("c"));
      return [a, c, yield* ask("d")];
    }
    const done = runAct(rule());
    expect(asked).toEqual(["a", "c"]);
    await answer();
    expect(asked).toEqual(["a", "c", "d"]);
    await answer();
    expect(await done).toEqual(["a!", "c!", "d!"]);
  });

  test("goes on side by side with acts that ask several times", async () => {
    const { asked, ask, answer } = makeServer();
    function* twice(name: string): Act<string> {
      return (yield* ask(`${name}1`)) + (yield* ask(`${name}2`));
    }
    const done = runAct(together(twice("a"), twice("b")));
    await answer();
    expect(asked).toEqual(["a1", "b1", "a2", "b2"]);
    await answer();
    expect(await done).toEqual(["a1!a2!", "b1!b2!"]);
  });

  test("gets the error of an answer where it asked", async () => {
    const { ask, answer } = makeServer();
    function* rule(): Act<string> {
      try {
        return yield* ask("a", new Error("broken"));
      } catch (error) {
        return `${String(error)}, then ${yield* ask("b")}`;
      }
    }
    const done = runAct(rule());
    await answer();
    await answer();
    expect(await done).toBe("Error: broken, then b!");
  });

  test("fails with the first error of acts side by side", async () => {
    const { ask, answer } = makeServer();
    const done = runAct(
      together(ask("a"), ask("b", new Error("b fails")), ask("c", new Error("c"))),
    );
    const failed = expect(done).rejects.toThrow("b fails");
    await answer();
    await failed;
  });
});

describe("a rule on a store in the process", () => {
  test("runs to its end in one call", () => {
    function* rule(): Act<number> {
      const [a, b] = yield* together(answered(1), answered(2));
      return a + b + (yield* answered(3));
    }
    expect(runNow(rule())).toBe(6);
  });

  test("throws what it throws", () => {
    // oxlint-disable-next-line eslint/require-yield
    function* rule(): Act<number> {
      throw new Error("no such row");
    }
    expect(() => runNow(rule())).toThrow("no such row");
  });

  test("must not wait: the transaction would be open meanwhile", () => {
    const { ask } = makeServer();
    expect(() => runNow(ask("a"))).toThrow("answers at once");
  });
});
