/** Where events and messages can be delivered to, beside a handler in code. */
export { commandSink, type CommandSinkOptions } from "./command.ts";
export { fileSink, type FileSinkOptions } from "./file.ts";
export { jsonlSink, type JsonlSinkOptions } from "./jsonl.ts";
export { isPublicAddress } from "./public-address.ts";
export { webhookSink, type WebhookSinkOptions } from "./webhook.ts";
export { verifyWebhook, type WebhookToVerify } from "./webhook-signature.ts";
