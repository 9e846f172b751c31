import { PassThrough, Writable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { Output } from 'millrace/internals';

describe('Output', () => {
  it('answers without a promise while there is room, and with one until a slow reader catches up', async () => {
    const stream = new PassThrough({ highWaterMark: 4 });
    const output = new Output(stream);
    expect(output.write('ab')).toBeUndefined();
    const waiting = output.write('cdef');
    expect(waiting).toBeInstanceOf(Promise);
    let over = false;
    const done = Promise.resolve(waiting).then(() => {
      over = true;
    });
    await new Promise(setImmediate);
    expect(over).toBe(false);
    stream.resume();
    await done;
    expect(over).toBe(true);
    expect(stream.listenerCount('drain')).toBe(0);
  });

  it('survives that its reader leaves: says so, frees who waits, and writes no more', async () => {
    const stream = new PassThrough({ highWaterMark: 1 });
    const output = new Output(stream);
    const waiting = output.write('more than one');
    stream.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    await waiting;
    expect(output.closed.aborted).toBe(true);
    expect(output.closed.reason).toBe('stdout was closed');
    expect(output.write('more')).toBeUndefined();
    await output.flush();
  });

  it('is flushed when everything has left the process', async () => {
    const written: string[] = [];
    const slow = new Writable({
      decodeStrings: false,
      write(chunk, _encoding, callback) {
        setImmediate(() => {
          written.push(String(chunk));
          callback();
        });
      },
    });
    const output = new Output(slow);
    void output.write('one');
    void output.write('two');
    await output.flush();
    expect(written.join('')).toBe('onetwo');
  });

  it.each([
    ['\u001b]0;PWNED\u0007\u001b[2J\u001b[1;1Hok\u001b[8m', ']0;PWNED[2J[1;1Hok[8m'],
    ['a\rb\bc\u009b2Jd\u0090e\u007f', 'abc2Jde'],
    ['\u202eevil\u2066x\u200f\u2028', 'evilx'],
    ['\u001b[1m\u001b[31mred\u001b[39m\u001b[22m\tand\n', '\u001b[1m\u001b[31mred\u001b[39m\u001b[22m\tand\n'],
  ])('R-15 writes %j without what steers a terminal, all but colours', (text, shown) => {
    const stream = new PassThrough();
    void new Output(stream).write(text);
    expect(String(stream.read())).toBe(shown);
  });

  it('knows the size of a terminal, and assumes one elsewhere', () => {
    const terminal = new Output(Object.assign(new PassThrough(), { isTTY: true, columns: 132, rows: 50 }));
    expect([terminal.isTerminal, terminal.columns, terminal.rows]).toEqual([true, 132, 50]);
    const pipe = new Output(new PassThrough());
    expect([pipe.isTerminal, pipe.columns, pipe.rows]).toEqual([false, 80, 24]);
  });

  it('assumes a size for a terminal that says 0, as some of CI systems do', () => {
    const terminal = new Output(Object.assign(new PassThrough(), { isTTY: true, columns: 0, rows: 0 }));
    expect([terminal.columns, terminal.rows]).toEqual([80, 24]);
  });
});
