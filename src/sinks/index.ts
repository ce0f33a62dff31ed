/** Where events and messages can be delivered, besides a handler in code. */
export { commandSink } from "./command.ts";
export { fileSink } from "./file.ts";
export { jsonlSink } from "./jsonl.ts";
export { isPublicAddress } from "./public-address.ts";
export { webhookSink } from "./webhook.ts";
export { verifyWebhook } from "./webhook-signature.ts";
