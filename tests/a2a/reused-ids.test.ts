import { describe, expect, it } from '@jest/globals';
import type { ToolContext } from 'millrace';
import { plainTools } from '../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from './bench.ts';
import { message, request, textOfPart } from './messages.ts';

/** Asks for one answer in each task, and is done with it. */
function asking(tasks: number) {
  const steps = Array.from({ length: tasks }, () => [{ toolCalls: [{ name: 'ask' }] }, { text: 'Done.' }]).flat();
  const ask = ({ ask }: ToolContext) => `answered: ${ask({ prompt: 'Which?' })}`;
  return a2aBench({ steps, agent: { toolProviders: [plainTools({ ask })] } });
}

const first = 'tck-input-required';
const second = 'tck-complete-task';

describe('the ids of messages that a conformance suite uses again', () => {
  it('R-39 stand for the first message: the task of the first test, and a refusal of other content', async () => {
    const { handler, model } = asking(2);
    const asked = await send(handler, message('Begin', { messageId: first }));
    expect(asked.status?.state).toBe(6);
    const done = await send(handler, message('This one', { messageId: second, taskId: asked.id }));
    expect(done.status?.state).toBe(3);
    const again = await send(handler, message('Begin', { messageId: first }));
    expect([again.id, again.status?.state]).toEqual([asked.id, 3]);
    const refused = `messageId "${first}" was used for another message`;
    const other = message('Begin otherwise', { messageId: first });
    expect(await refusal(handler.sendMessage(request(other), call()))).toContain(refused);
    const followUp = message('Begin', { messageId: first, taskId: (await send(handler, 'New')).id });
    expect(await refusal(handler.sendMessage(request(followUp), call()))).toContain(refused);
    expect(model.calls).toHaveLength(3);
  });

  it('R-39 with ids of their own each test has its task, and the history has the messages in order, as they were sent', async () => {
    const { handler } = asking(2);
    for (const run of ['1', '2']) {
      const asked = await send(handler, message('Begin', { messageId: `${first}-${run}` }));
      expect(asked.status?.state).toBe(6);
      const done = await send(handler, message('This one', { messageId: `${second}-${run}`, taskId: asked.id }));
      expect(done.status?.state).toBe(3);
      const sent = done.history.filter(({ role }) => role === 1);
      expect(sent.map((each) => [each.messageId, each.parts.map(textOfPart).join('')])).toEqual([
        [`${first}-${run}`, 'Begin'],
        [`${second}-${run}`, 'This one'],
      ]);
    }
  });
});
