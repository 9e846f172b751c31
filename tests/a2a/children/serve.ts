// Starts a turn for a client of A2A and is killed in the middle of the model's second answer.
import { appendFileSync } from 'node:fs';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { a2aRequestHandler } from 'millrace/a2a';
import { message, request } from '../messages.ts';
import { cardAt } from '../serving.ts';
import { killedAgent } from './killed-agent.ts';

const [path = '', messageId = ''] = process.argv.slice(2);
const { agent } = killedAgent(path, {
  last: { text: ['Half an '], never: true },
  onTool: () => appendFileSync(`${path}/calls`, 'called '),
});
const handler = a2aRequestHandler({ agent, card: cardAt('http://x') });
const sent = request(message('Count', { messageId }), { returnImmediately: true });
await handler.sendMessage(sent, new ServerCallContext());
process.send?.('started');
