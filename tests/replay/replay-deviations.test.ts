import { describe, expect, it } from '@jest/globals';
import { type JournalRecord, LocalToolProvider, replay, tool } from 'millrace';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();

describe('a replay whose loop is another', () => {
  const weather = (description: string, city: object = { type: 'string' }) =>
    new LocalToolProvider([
      tool({
        name: 'weather',
        description,
        parameters: { type: 'object', properties: { city }, required: ['city'] },
        execute: () => 'rain',
      }),
    ]);

  async function recorded(): Promise<readonly JournalRecord[]> {
    const asks = { toolCalls: [{ name: 'weather', arguments: { city: 'Oslo' } }] };
    const loop = bench.loop([asks, { text: 'Rain.' }], { toolProviders: [weather('Tells the weather.')] });
    await loop.startTurn(question, { taskId: 't' }).result();
    return bench.store.read('t');
  }

  it('is the same with another prompt and other code of its tools', async () => {
    const records = await recorded();
    const config = { toolProviders: [weather('Tells the weather.')], systemPrompt: 'Be brief.' };
    expect(await replay(records, config).result()).toMatchObject({ text: 'Rain.', deviations: [] });
  });

  it('errors with DEVIATION where the model is offered something else: what was expected, and what came', async () => {
    const result = replay(await recorded(), { toolProviders: [weather('Tells of rain.')] }).result();
    await expect(result).rejects.toMatchObject({
      code: 'DEVIATION',
      message:
        'The replay of task "t" is not what was recorded: record 2, llm.start 1.1: tools.0.description: expected "Tells the weather.", got "Tells of rain.".',
    });
  });

  it('errors with DEVIATION where a call is refused that ran', async () => {
    const toolProviders = [weather('Tells the weather.', { enum: ['Bergen'] })];
    const records = (await recorded()).map((record) =>
      record.type === 'llm.start' ? { ...record, tools: [definitionOf({ enum: ['Bergen'] })] } : record,
    );
    await expect(replay(records, { toolProviders }).result()).rejects.toMatchObject({
      code: 'DEVIATION',
      message: expect.stringMatching(
        /record 4, the next record: expected \{"type":"tool\.intent".*got \{"type":"tool\.result"/,
      ),
    });
  });

  function definitionOf(city: object) {
    return {
      name: 'weather',
      description: 'Tells the weather.',
      parameters: { type: 'object', properties: { city }, required: ['city'] },
    };
  }

  it('errors with DEVIATION where it comes to its limit, and where records are left', async () => {
    const records = await recorded();
    await expect(replay(records, { maxIterations: 1 }).result()).rejects.toMatchObject({
      message: expect.stringMatching(/expected \{"type":"llm\.start","iteration":2.*got \{"type":"turn\.failed"/),
    });
    const answerless = records.map((record) => (record.type === 'llm.done' ? { ...record, calls: [] } : record));
    await expect(async () => replay(answerless).result()).rejects.toMatchObject({ code: 'POISON' });
  });

  it('goes on in forgiving mode with the answers that fit, and tells all deviations', async () => {
    const toolProviders = [weather('Tells of rain.', { enum: ['Bergen'] })];
    const result = await replay(await recorded(), { toolProviders }, { mode: 'forgiving' }).result();
    expect(result).toMatchObject({ status: 'completed', text: 'Rain.' });
    expect(result.deviations).toMatchObject([
      { seq: 2, what: 'llm.start 1.1: tools.0.description' },
      { seq: 4, what: 'the next record', got: { type: 'tool.result', error: { code: 'TOOL_ARGUMENTS' } } },
    ]);
    expect(result.records.map(({ type }) => type)).toEqual([
      'turn.started',
      'llm.start',
      'llm.done',
      'tool.result',
      'llm.start',
      'llm.done',
      'turn.done',
    ]);
  });

  it('fails the turn in forgiving mode where nothing is recorded any more, and names what was not used', async () => {
    const records = await recorded();
    const more = records.map((record) =>
      record.type === 'llm.done' && record.iteration === 2 ? { ...record, finishReason: 'length' as const } : record,
    );
    const result = await replay(more, { maxIterations: 1 }, { mode: 'forgiving' }).result();
    expect(result).toMatchObject({ status: 'failed', reason: 'unfinished' });
    expect(result.deviations.at(-1)).toMatchObject({ what: 'not used', expected: 'llm.done 2.1' });
  });
});
