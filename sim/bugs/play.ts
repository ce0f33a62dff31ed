/** The world in which bugs are hunted. */
export { playSeed } from "../play-seed.ts";
export { WHOLE } from "../traffic/cut.ts";
