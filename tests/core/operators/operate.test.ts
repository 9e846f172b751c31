import { describe, expect, it } from '@jest/globals';
import { fuse, type Handlers, operate, type Sink, Stage, staged } from 'millrace/internals';
import { Observable, type OperatorFunction, of, Subject, take, throwError } from 'rxjs';
import { marbles } from './marbles.ts';

/** An operator that passes everything on and writes down what it hears, in `heard`. */
function noting(name: string, heard: string[], handlers: (to: Sink<string>) => Partial<Handlers<string>> = () => ({})) {
  return operate<string, string>((to) => {
    to.add(() => heard.push(`${name} teardown`));
    return {
      next(value) {
        heard.push(`${name} ${value}`);
        to.next(value);
      },
      error(error) {
        heard.push(`${name} error ${error}`);
        to.error(error);
      },
      complete() {
        heard.push(`${name} complete`);
        to.complete();
      },
      ...handlers(to),
    };
  });
}

/** What one subscriber hears. */
function listen(source$: Observable<unknown>, heard: string[]) {
  return source$.subscribe({
    next: (value) => heard.push(`out ${value}`),
    error: (error) => heard.push(`out error ${error}`),
    complete: () => heard.push('out complete'),
  });
}

const broken = () => {
  throw 'broken';
};

/** A stage that writes down how it ends. */
class Noting extends Stage<string> {
  readonly #name: string;
  readonly #heard: string[];

  constructor(to: Sink<string>, name: string, heard: string[]) {
    super(to, 'all');
    this.#name = name;
    this.#heard = heard;
    this.add(() => heard.push(`${name} teardown`));
  }

  protected override finalize(): void {
    this.#heard.push(`${this.#name} left`);
  }
}

describe('a stage', () => {
  const ends: readonly (readonly [string, (source$: Subject<string>) => void, readonly string[]])[] = [
    ['completes', (source$) => source$.complete(), ['out complete']],
    ['errors', (source$) => source$.error('e'), ['out error e']],
    ['is left', () => {}, []],
  ];

  it.each(ends)(
    'hears that its stream is over once the one before it has heard so, and before those behind: %s',
    (_, end, out) => {
      const heard: string[] = [];
      const source$ = new Subject<string>();
      const stages = ['x', 'y', 'z'].map((name) => staged<string, string>((to) => new Noting(to, name, heard)));
      const running = listen(source$.pipe(fuse(...stages)), heard);
      end(source$);
      running.unsubscribe();
      const own = ['x', 'y', 'z'].flatMap((name) => [`${name} teardown`, `${name} left`]);
      expect(heard).toEqual([...own, ...out]);
    },
  );
});

describe('operate', () => {
  it('passes errors and completion on where no handler is given', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const same = operate<string, string>((to) => ({ next: (value) => to.next(value) }));
      const completing$ = hot('-a-b-|');
      const failing$ = hot('   -a-#');
      const left$ = hot('      -a-b-|');
      expectObservable(completing$.pipe(same)).toBe('-a-b-|');
      expectObservable(failing$.pipe(same)).toBe('-a-#');
      expectObservable(left$.pipe(same), '--!').toBe('-a');
      expectSubscriptions(completing$.subscriptions).toBe('^----!');
      expectSubscriptions(failing$.subscriptions).toBe('^--!');
      expectSubscriptions(left$.subscriptions).toBe('^-!');
    });
  });

  it('lets a handler end the stream, and leaves the source then', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const untilB = operate<string, string>((to) => ({
        next: (value) => (value === 'b' ? to.complete() : to.next(value)),
      }));
      const source$ = hot('-a-b-c-|');
      expectObservable(source$.pipe(untilB)).toBe('-a-|');
      expectSubscriptions(source$.subscriptions).toBe('^--!');
    });
  });

  it('errors the stream with what a handler throws, and leaves the source', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const onNext = operate<string, string>(() => ({ next: broken }));
      const onError = operate<string, string>((to) => ({ next: (value) => to.next(value), error: broken }));
      const onComplete = operate<string, string>((to) => ({ next: (value) => to.next(value), complete: broken }));
      const source$ = hot('-a-|');
      expectObservable(source$.pipe(onNext)).toBe('-#', {}, 'broken');
      expectSubscriptions(source$.subscriptions).toBe('^!');
      expectObservable(hot('-a-#').pipe(onError)).toBe('-a-#', undefined, 'broken');
      expectObservable(hot('-a-|').pipe(onComplete)).toBe('-a-#', undefined, 'broken');
    });
  });

  it('makes handlers for each subscription', () => {
    const counting = operate<string, number>((to) => {
      let count = 0;
      return { next: () => to.next(++count) };
    });
    const heard: string[] = [];
    const counted$ = of('a', 'b').pipe(counting);
    listen(counted$, heard);
    listen(counted$, heard);
    expect(heard).toEqual(['out 1', 'out 2', 'out complete', 'out 1', 'out 2', 'out complete']);
  });

  it('runs teardown once and before the end is heard behind it; leaving runs it too', () => {
    const ends: Readonly<Record<string, Observable<string>>> = { complete: of('a'), error: throwError(() => 'e') };
    const heard: Record<string, string[]> = { complete: [], error: [], leave: [] };
    for (const [end, source$] of Object.entries(ends)) {
      const list = heard[end] ?? [];
      listen(source$.pipe(noting('x', list)), list);
    }
    const left = heard['leave'] ?? [];
    listen(new Subject<string>().pipe(noting('x', left)), left).unsubscribe();
    expect(heard).toEqual({
      complete: ['x a', 'out a', 'x complete', 'x teardown', 'out complete'],
      error: ['x error e', 'x teardown', 'out error e'],
      leave: ['x teardown'],
    });
  });

  it('runs teardown at once where it is added behind the end', () => {
    const heard: string[] = [];
    const late = operate<string, string>((to) => ({
      next(value) {
        to.next(value);
        to.complete();
        to.add(() => heard.push('late teardown'));
      },
    }));
    listen(of('a').pipe(late), heard);
    expect(heard).toEqual(['out a', 'out complete', 'late teardown']);
  });

  it('stops a synchronous source in the middle', () => {
    let produced = 0;
    const source$ = new Observable<number>((subscriber) => {
      while (produced < 1_000 && !subscriber.closed) subscriber.next(++produced);
    });
    const same = operate<number, number>((to) => ({ next: (value) => to.next(value) }));
    source$.pipe(same, take(3)).subscribe();
    expect(produced).toBe(3);
  });
});

describe('fuse', () => {
  type Chain = (heard: string[]) => readonly [ReturnType<typeof noting>, ReturnType<typeof noting>];

  const chains: Readonly<Record<string, Chain>> = {
    'pass everything on': (heard) => [noting('x', heard), noting('y', heard)],
    'end early in the second': (heard) => [
      noting('x', heard),
      noting('y', heard, (to) => ({ next: () => to.complete() })),
    ],
    'end early in the first': (heard) => [
      noting('x', heard, (to) => ({ next: () => to.complete() })),
      noting('y', heard),
    ],
    'fail in the first': (heard) => [noting('x', heard, (to) => ({ next: () => to.error('no') })), noting('y', heard)],
    'throw in the first': (heard) => [noting('x', heard, () => ({ next: broken })), noting('y', heard)],
    'throw in the second': (heard) => [noting('x', heard), noting('y', heard, () => ({ next: broken }))],
    'throw behind an error': (heard) => [noting('x', heard, () => ({ error: broken })), noting('y', heard)],
    'throw behind completion': (heard) => [noting('x', heard, () => ({ complete: broken })), noting('y', heard)],
    'throw in the second behind completion': (heard) => [
      noting('x', heard),
      noting('y', heard, () => ({ complete: broken })),
    ],
    'catch in the second': (heard) => [
      noting('x', heard, () => ({ next: broken })),
      noting('y', heard, (to) => ({
        error(error) {
          to.next(`caught ${error}`);
          to.complete();
        },
      })),
    ],
  };
  const sources: Readonly<Record<string, () => Observable<string>>> = {
    'of values': () => of('a', 'b'),
    'that fails': () =>
      new Observable((to) => {
        to.next('a');
        to.error('e');
      }),
    'that goes on': () => new Observable((to) => to.next('a')),
  };

  for (const [what, chain] of Object.entries(chains)) {
    for (const [kind, source] of Object.entries(sources)) {
      it(`of operators that ${what} does with a source ${kind} what pipe does`, () => {
        const [fused, piped] = [
          (heard: string[]) => fuse(...chain(heard)),
          (heard: string[]) => pipeOf(...chain(heard)),
        ].map((operatorOf) => {
          const heard: string[] = [];
          listen(source().pipe(operatorOf(heard)), heard).unsubscribe();
          return heard;
        });
        expect(fused).toEqual(piped);
        expect(fused?.filter((each) => each.endsWith('teardown')).toSorted()).toEqual(['x teardown', 'y teardown']);
      });
    }
  }

  it('stops a synchronous source in the middle', () => {
    const heard: string[] = [];
    const source$ = new Observable<string>((to) => {
      for (let index = 0; index < 1_000 && !to.closed; index++) to.next(`${index}`);
    });
    listen(source$.pipe(fuse(noting('x', heard), noting('y', heard)), take(1)), heard);
    expect(heard).toEqual(['x 0', 'y 0', 'out 0', 'out complete', 'x teardown', 'y teardown']);
  });
});

function pipeOf(first: OperatorFunction<string, string>, second: OperatorFunction<string, string>) {
  return (source: Observable<string>) => source.pipe(first, second);
}
