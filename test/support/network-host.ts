/**
 * Another host for a program, with its own network and one cable: a network namespace with a pair
 * of virtual devices. When the cable is unplugged neither side sees an error; packets are just
 * lost.
 */
import { trySystemProgram } from "./system-program.ts";

const INSTALL = ["install", "-y", "-o", "DPkg::Lock::Timeout=60", "iproute2"];
/** A rarely used part of the private addresses. */
const NETWORK = "10.231";
/** All hosts get an address from this network. */
export const NETWORK_HOSTS = `${NETWORK}.0.0/16`;

let made = 0;

export class NetworkHost {
  /** The command line before a program that runs it there. */
  readonly before: readonly string[];
  /** The address of this host, as seen from there. */
  readonly gateway: string;
  readonly #name: string;
  readonly #cable: string;

  private constructor(name: string, cable: string, subnet: string) {
    this.#name = name;
    this.#cable = cable;
    this.gateway = `${subnet}.1`;
    this.before = ["ip", "netns", "exec", name];
  }

  /** The host, or the reason why this user may not create one. */
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
      return `a network namespace cannot be created here: ip ${step.join(" ")}: ${problem}`;
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
