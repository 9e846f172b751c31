// Runs a turn that asks for an approval, with tracing, in a process of its own, and says that it is suspended: the parent kills it there. `resume` approves, and
// ends the turn and the process.
import { agent, tool } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { startTracing } from 'millrace/otel';
import { scriptedLLM } from 'millrace/testing';

const [path = '', endpoint = '', verb = 'start'] = process.argv.slice(2);
// No batch is sent because of its age.
process.env['OTEL_BSP_SCHEDULE_DELAY'] = '600000';
const tracing = startTracing({ endpoint, shutdownTimeoutMs: 5_000 });
const call = { name: 'pay', description: 'Pays.', parameters: { type: 'object' }, needsApproval: true } as const;
const pay = tool({ ...call, execute: () => 'paid' });
const steps = verb === 'start' ? [{ toolCalls: [{ name: 'pay' }] }] : [{ text: 'Paid.' }];
const taskStateStore = new LmdbStateStore({ path });
const ada = agent({ id: 'ada', tools: [pay], provider: scriptedLLM(steps), taskStateStore });
if (verb === 'start') {
  // A process that has nothing to do ends, and flushes before that.
  process.on('message', () => {});
  await ada.run('Pay.', { taskId: 't' });
  process.send?.('suspended');
} else {
  const turn = ada.resume('t', { answers: { '1:0': { approved: true } }, onBusy: 'wait' });
  const { text } = await turn.result();
  await turn.settled;
  process.send?.({ text, report: await tracing.shutdown() });
  process.disconnect?.();
}
