import { describe, expect, it } from '@jest/globals';
import { team } from 'millrace';
import { gate } from 'millrace/testing';
import { clientOf, message, serverBench } from './test-server.ts';

const on = serverBench();

describe('a team behind a server', () => {
  it('T-11 shows a client the text of the agent that takes over while it is written', async () => {
    const held = gate();
    on.after(() => held.open());
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b' } }] };
    const a = on.echo([handing], { id: 'a' });
    const usage = { promptTokens: 6, completionTokens: 4, totalTokens: 10 };
    const b = on.echo([{ text: ['One, ', held.pass(), 'two.'], usage }], { id: 'b' });
    const desk = team({ agents: [a, b], handOff: true, id: 'desk' });
    const received: string[] = [];
    desk.on('message:received', ({ agentId }) => received.push(agentId));
    const { url } = await on.serve({ agent: desk.asAgent() });
    const client = await clientOf(url);
    const chunks: string[] = [];
    const states: unknown[] = [];
    for await (const { payload } of client.sendMessageStream(message('Count.'))) {
      if (payload?.$case === 'statusUpdate') states.push(payload.value.status?.state);
      if (payload?.$case !== 'artifactUpdate') continue;
      const { artifact } = payload.value;
      for (const { content } of artifact?.parts ?? []) if (content?.$case === 'text') chunks.push(content.value);
      held.open();
    }
    expect(chunks.join('')).toBe('One, two.');
    expect(chunks[0]).toBe('One, ');
    expect(states.at(-1)).toBe(3);
    // The team that is served is the one that its owner holds.
    expect(received).toEqual(['b']);
    expect(b.usage?.usage.totalTokens).toBe(10);
    expect(desk.usage?.usage.totalTokens).toBeGreaterThanOrEqual(10);
    await desk.close();
  });
});
