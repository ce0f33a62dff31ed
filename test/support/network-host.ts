/**
 * Another host for a program, with a network of its own that one cable leads to: a namespace with a
 * pair of virtual devices. When the cable is unplugged nobody is told; packets are just gone.
 */
import { trySystemProgram } from "./system-program.ts";

const INSTALL = ["install", "-y", "-o", "DPkg::Lock::Timeout=60", "iproute2"];
/** Of the addresses that are for private use, a part that hardly anybody uses. */
const NETWORK = "10.231";
/** From which all of them come. */
export const NETWORK_HOSTS = `${NETWORK}.0.0/16`;

let made = 0;

export class NetworkHost {
  /** What is put before a program to run it there. */
  readonly before: readonly string[];
  /** Under which that host finds this one. */
  readonly gateway: string;
  readonly #name: string;
  readonly #cable: string;

  private constructor(name: string, cable: string, subnet: string) {
    this.#name = name;
    this.#cable = cable;
    this.gateway = `${subnet}.1`;
    this.before = ["ip", "netns", "exec", name];
  }

  /** The host, or the reason why this user may not have one. */
  static make(): NetworkHost | string {
    const n = ++made;
    // By the process: test files run side by side.
    const subnet = `${NETWORK}.${(process.pid + n) % 255}`;
    const [name, cable] = [`sluice-${process.pid}-${n}`, `sl${process.pid}x${n}`];
    const far = `${cable}p`;
    if (trySystemProgram("ip", "-V") !== null) trySystemProgram("apt-get", ...INSTALL);
    const steps = [
      ["netns", "add", name],
      ["link", "add", cable, "type", "veth", "peer", "name", far, "netns", name],
      ["addr", "add", `${subnet}.1/24`, "dev", cable],
      ["link", "set", cable, "up"],
      ["-n", name, "addr", "add", `${subnet}.2/24`, "dev", far],
      ["-n", name, "link", "set", far, "up"],
      ["-n", name, "link", "set", "lo", "up"],
    ];
    const host = new NetworkHost(name, cable, subnet);
    for (const step of steps) {
      const problem = trySystemProgram("ip", ...step);
      if (problem === null) continue;
      host.remove();
      return `another host cannot be made here: ip ${step.join(" ")}: ${problem}`;
    }
    return host;
  }

  unplug(): void {
    this.#set("down");
  }

  plug(): void {
    this.#set("up");
  }

  remove(): void {
    trySystemProgram("ip", "link", "del", this.#cable);
    trySystemProgram("ip", "netns", "del", this.#name);
  }

  #set(state: "up" | "down"): void {
    const problem = trySystemProgram("ip", "link", "set", this.#cable, state);
    if (problem !== null) throw new Error(problem);
  }
}
