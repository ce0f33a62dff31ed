/** A real web server on this host, for tests of requests. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A request as it arrived. */
export interface Hit {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  /** The event in the body. */
  readonly event: { readonly id: string; readonly type: string };
}

/** Answers a request, or leaves it without an answer. */
export type Answer = (hit: Hit, response: ServerResponse) => void;

export interface WebServer {
  readonly url: string;
  readonly port: number;
  readonly hits: readonly Hit[];
  close(): Promise<void>;
}

export const ok: Answer = (_hit, response) => void response.end("thanks");

export function status(code: number, headers: Record<string, string> = {}): Answer {
  return (_hit, response) => void response.writeHead(code, headers).end();
}

export async function startWebServer(answer: Answer): Promise<WebServer> {
  const hits: Hit[] = [];
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let body = "";
    for await (const part of request.setEncoding("utf8")) body += part as string;
    const event = JSON.parse(body) as Hit["event"];
    const hit: Hit = { path: request.url ?? "", headers: request.headers, body, event };
    hits.push(hit);
    answer(hit, response);
  };
  const server = createServer((request, response) => {
    // Some tests have a client that disconnects in the middle.
    receive(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    hits,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
