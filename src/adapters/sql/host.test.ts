import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { describeHost } from "./host.ts";

/** The description of another process of this host, as it would give it itself. */
function describeOther(pid: number): string {
  const [boot, namespace] = describeHost().process.split("/");
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const ticks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  return `${boot}/${namespace}/${pid}/${ticks}`;
}

describe.skipIf(process.platform !== "linux")("processes on Linux", () => {
  const host = describeHost();

  test("this process is alive, and describes itself the same every time", () => {
    expect(host.isGone(host.process)).toBe(false);
    expect(describeHost().process).toBe(host.process);
    expect(host.process).toBe(describeOther(process.pid));
    expect(host.bootId).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("another process is alive until it is killed, and is gone at once", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const other = describeOther(child.pid ?? 0);
    expect(host.isGone(other)).toBe(false);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(host.isGone(other)).toBe(true);
  });

  test("a later process with the same number is not taken for the dead one", () => {
    const [boot, namespace, pid, ticks] = host.process.split("/");
    expect(host.isGone(`${boot}/${namespace}/${pid}/${Number(ticks) - 1}`)).toBe(true);
  });

  test("a process on another host, or with an unknown description, is not called gone", () => {
    const [boot, namespace] = host.process.split("/");
    const elsewhere = [`${boot}/pid:[1]/1/1`, `${boot}/pid:[1]/999999999/5`];
    const onOtherHost = `00000000-0000-0000-0000-000000000000/${namespace}/999999999/5`;
    for (const other of [...elsewhere, onOtherHost, `${boot}/${namespace}/999999999/?`, ""]) {
      expect(host.isGone(other)).toBe(false);
    }
  });
});
