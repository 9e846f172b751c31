// A client as its users have it: node client.mjs <openai|ai-sdk-6|ai-sdk-7|langchain|agents>. Reads one JSON object a line, says or decides what it names, and prints what the user is shown.
import { createInterface } from 'node:readline';

const [kind = ''] = process.argv.slice(2);
const { chatOf } = await import(kind.startsWith('ai-sdk') ? './ai-sdk.mjs' : `./${kind}.mjs`);
const sdk = Number(kind.at(-1));

/** Chats that go on, by their names. */
const chats = new Map();
console.log('{"ready":true}');

for await (const line of createInterface({ input: process.stdin })) {
  const { name, say, decide, ...settings } = JSON.parse(line);
  if (!chats.has(name)) chats.set(name, await chatOf({ ...settings, sdk }));
  const chat = chats.get(name);
  const shown = await (say === undefined ? chat.decide(decide) : chat.say(say)).catch((error) => ({ error }));
  console.log(JSON.stringify({ text: shown.text ?? '', asks: shown.asks ?? [], ...errorOf(shown.error) }));
}

function errorOf(error) {
  if (error === undefined) return {};
  const { name, status, statusCode, code, message } = error;
  return { error: { name, status: status ?? statusCode, code, message: String(message ?? error).split('\n')[0] } };
}
