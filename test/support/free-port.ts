/** A free port of the loopback; another process may take it before the test does. */
import { once } from "node:events";
import { createServer } from "node:net";

export async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port was given");
  return address.port;
}
