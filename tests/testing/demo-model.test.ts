import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { prose, timesAsLong } from '../processor-time.ts';
import { conversationWith, otherTools, workspaceTools } from './converse.ts';

describe('demoModel', () => {
  it('asks for all tools at once, follows up a search, and answers with what they said', () => {
    const { say } = conversationWith(workspaceTools);
    const { texts, calls } = say('What is 12 * 7, what time is it in Tokyo, and which source files mention shareTurn?');
    expect(calls).toEqual([
      [
        ['calculate', { expression: '12 * 7' }],
        ['current_time', { zone: 'Asia/Tokyo' }],
        ['search_files', { query: 'shareTurn' }],
      ],
      [['read_file', { path: 'src/share-turn.ts' }]],
    ]);
    expect(texts).toEqual([
      'I will work out 12 * 7, look up the time in Tokyo and search for shareTurn.',
      'Next I will read src/share-turn.ts.',
      '12 * 7 is 84. In Tokyo it is 07:05 on Sunday, 1 March 2026. shareTurn is in 2 files: src/share-turn.ts and src/turn.ts. src/share-turn.ts has 3 lines. It begins: “Many subscribers, one execution. The last one out cancels”.',
    ]);
  });

  it('uses quite different tools by their names and parameters', () => {
    const { say } = conversationWith(otherTools);
    const { calls, answer } = say(
      "What's the weather in Paris and Rome, convert 100 dollars, and what is the status of order A-17?",
    );
    expect(calls).toEqual([
      [
        ['get_weather', { city: 'Paris' }],
        ['get_weather', { city: 'Rome' }],
        ['convert_currency', { amount: 100, unit: 'dollars' }],
        ['lookup_order', { order_id: 'A-17' }],
      ],
    ]);
    expect(answer).toContain('in Paris”, get_weather says: temperature 18 and sky cloudy.');
    expect(answer).toContain('in Rome”, get_weather says: temperature 25 and sky cloudy.');
    expect(answer).toContain('For “convert 100 dollars”, convert_currency says: result 50.');
    expect(answer).toContain('lookup_order says: Order A-17 was shipped.');
  });

  it('names the parameters as the schema does, and asks one by one where it must', () => {
    const tool = (name: string, parameter: string) => ({
      name,
      description: '',
      parameters: { type: 'object', properties: { [parameter]: { type: 'string' } }, required: [parameter] },
      run: () => 'done',
    });
    const tools = [tool('math_eval', 'formula'), tool('clock', 'timezone'), tool('grep', 'pattern')];
    const { say } = conversationWith(tools, { parallel_tool_calls: false });
    const { calls } = say('Calculate 3 + 4, then find "a b", and what time is it in New York?');
    expect(calls).toEqual([
      [['math_eval', { formula: '3 + 4' }]],
      [['grep', { pattern: 'a b' }]],
      [['clock', { timezone: 'America/New_York' }]],
    ]);
  });

  it('says what it is where no tool fits, or where a tool lacks something', () => {
    const { say } = conversationWith(otherTools);
    expect(say('Who wrote Hamlet?')).toEqual({
      calls: [],
      texts: [expect.any(String)],
      answer:
        'I cannot answer “Who wrote Hamlet?”. I am a stand-in for a model: I match questions with tools and know nothing of my own. What I am offered does not fit: get_weather, convert_currency and lookup_order.',
    });
    expect(say('What is 12 * 7?').answer).toMatch(/^I cannot answer “What is 12 \* 7\?”/);
    expect(say('What is the weather?').answer).toBe(
      'For “What is the weather?” I would use get_weather, but I do not see what to give it as city.',
    );
    expect(conversationWith([]).say('What is 12 * 7?').answer).toContain('No tool is offered to me');
  });

  it('answers what it can and says what it cannot', () => {
    const { answer, calls } = conversationWith(workspaceTools).say('What is 12 * 7 and who wrote Hamlet?');
    expect(calls).toEqual([[['calculate', { expression: '12 * 7' }]]]);
    expect(answer).toMatch(/^12 \* 7 is 84\./);
    expect(answer).toContain('I cannot answer “who wrote Hamlet?”.');
  });

  it('tells honestly of an error, and does not ask again', () => {
    const { calls, answer } = conversationWith(workspaceTools).say('Read nope.md and summarise README.md');
    expect(calls).toHaveLength(1);
    expect(answer).toContain('I could not read nope.md: read_file answered “nope.md does not exist”.');
    expect(answer).toContain('README.md has 9 lines. It begins: “# Millrace A *TypeScript* engine.');
  });

  it('says that a search found nothing, and then reads nothing', () => {
    const { calls, answer } = conversationWith(workspaceTools).say('Which files mention zebra?');
    expect(calls).toEqual([[['search_files', { query: 'zebra' }]]]);
    expect(answer).toBe('zebra is in no file.');
  });

  it('greets, and says what it is offered', () => {
    const { say } = conversationWith(workspaceTools);
    expect(say('Hello!').answer).toMatch(/^Hello! I am a stand-in for a model/);
    expect(say('What can you do?').answer).toContain('I am offered calculate, current_time, list_files');
  });

  it('answers the last prompt only, not those that were answered', () => {
    const { say } = conversationWith(workspaceTools);
    say('What time is it in Tokyo?');
    expect(say('What time is it in New York?').answer).toBe('In New York it is 22:05 on Saturday, 28 February 2026.');
  });

  it('takes up a message that comes while it works, and an instruction that is no question', () => {
    const { messages, reply, say } = conversationWith(workspaceTools);
    messages.push(
      { role: 'user', content: 'What is 12 * 7?' },
      {
        role: 'assistant',
        tool_calls: [{ id: 'a', function: { name: 'calculate', arguments: '{"expression":"12 * 7"}' } }],
      },
      { role: 'tool', tool_call_id: 'a', content: '84' },
    );
    const { calls, answer } = say('Also: what time is it in Tokyo?');
    expect(calls).toEqual([[['current_time', { zone: 'Asia/Tokyo' }]]]);
    expect(answer).toBe('12 * 7 is 84. In Tokyo it is 07:05 on Sunday, 1 March 2026.');
    messages.splice(3, messages.length, { role: 'user', content: 'Sum up what you have found so far.' });
    expect(reply({ tools: [] })).toEqual({ text: '12 * 7 is 84.' });
  });

  it('calls no tool where it may not, and says so', () => {
    const { messages, reply } = conversationWith(workspaceTools);
    messages.push({ role: 'user', content: 'What is 12 * 7?' });
    expect(reply({ tool_choice: 'none' })).toEqual({ text: 'I would work out 12 * 7, but I may not call a tool now.' });
  });

  it('calls the tool that it must, and one where it must call some', () => {
    const { messages, reply } = conversationWith(workspaceTools);
    messages.push({ role: 'user', content: 'Who wrote Hamlet?' });
    const named = { type: 'function', function: { name: 'current_time' } };
    expect(reply({ tool_choice: named }).toolCalls).toMatchObject([{ name: 'current_time' }]);
    expect(reply({ tool_choice: 'required' }).toolCalls).toHaveLength(1);
    expect(reply().toolCalls).toBeUndefined();
  });

  it('hands its answer to a finish tool, in the form of its schema', () => {
    const schema = {
      type: 'object',
      properties: {
        answer: { type: 'string' },
        result: { type: 'number' },
        sources: { type: 'array', items: { type: 'string' } },
        mood: { enum: ['good', 'bad'] },
        sure: { type: 'boolean' },
      },
      required: ['answer', 'result'],
    };
    const finish = { name: '__finish__', description: 'Ends the task.', parameters: schema, run: () => 'ok' };
    const { calls, answer } = conversationWith([...workspaceTools, finish]).say('What is 12 * 7?');
    expect(calls).toEqual([
      [['calculate', { expression: '12 * 7' }]],
      [['__finish__', { answer: '12 * 7 is 84.', result: 84, sources: ['12 * 7 is 84.'], mood: 'good', sure: true }]],
    ]);
    expect(answer).toBe('12 * 7 is 84.');
  });

  it('tries a finish tool that refuses once more, and then answers', () => {
    const finish = { name: 'done', description: '', parameters: {}, run: () => 'Error: message is missing' };
    const { calls } = conversationWith([...workspaceTools, finish]).say('What is 12 * 7?');
    expect(calls.map((batch) => batch.map(([name]) => name))).toEqual([['calculate'], ['done'], ['done']]);
  });

  it('says what it is where it is asked nothing', () => {
    expect(conversationWith([]).reply({ messages: [{ role: 'system', content: 'Be nice.' }] }).text).toMatch(
      /stand-in/,
    );
  });

  it('comes to an end with any prompts and any results', () => {
    const word = fc.constantFrom(
      ...'what is read search for list files it the first one and in Tokyo README.md src/a.ts 12 * 7 ( " ` , . ? then mention it convert 5 km to'.split(
        ' ',
      ),
    );
    const prompt = fc.oneof(
      fc.string(),
      fc.array(word, { maxLength: 15 }).map((words) => words.join(' ')),
    );
    const result = fc.oneof(
      fc.string(),
      fc.json(),
      fc.constantFrom('a.ts:1: x', 'Error: no', '', 'src/a.ts\nsrc/b.ts'),
    );
    fc.assert(
      fc.property(
        fc.array(prompt, { minLength: 1, maxLength: 3 }),
        fc.array(result, { minLength: 1 }),
        (prompts, results) => {
          let next = 0;
          const tools = [...workspaceTools, ...otherTools].map((tool) => ({
            ...tool,
            run: () => results[next++ % results.length] ?? '',
          }));
          const { say } = conversationWith(tools);
          for (const text of prompts) expect(say(text).answer).not.toBe('');
        },
      ),
      { numRuns: 300 },
    );
  });

  it.each([' ', 'a.', 'A', 'then ', 'in a ', '1 + ', '"', '(', 'a/'])(
    'reads a huge prompt of %j in linear time',
    async (text) => {
      const say = (prompt: string) => () => conversationWith(workspaceTools).say(prompt);
      const huge = `x${text.repeat(50_000)}x`;
      const compared = { run: say(huge), base: say(prose(huge.length)), most: 100 };
      expect(await timesAsLong(compared)).toBeLessThan(100);
    },
  );
});
