import Sequencer from '@jest/test-sequencer';

const long = /\/tests\/(contract|crash|e2e|parity|stores)\//;

/** Where no run has told yet how long files take, those that start servers and processes come first: none of them is left for the end. */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const sorted = super.sort(tests);
    const first = (test) => test.duration === undefined && long.test(test.path);
    return [...sorted.filter(first), ...sorted.filter((test) => !first(test))];
  }
}
