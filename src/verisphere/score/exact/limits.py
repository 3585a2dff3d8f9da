"""The limits of exact scans: how much is compared, held and processed at once.

They set speed and memory. No answer depends on them.
"""

# --- screens ---

#: Keys are 1 .. KEY_RANGE - 1; 0 marks a place that holds no pair.
KEY_RANGE = 1 << 15
FEW_PAIRS = 1 << 22  # which are compared in less time than a trial of each screen takes
MEASURED_ROWS = 1 << 8  # they stay in a core's cache
CHECKED_ROWS = 64  # rows of each side whose error bound is checked when a screen is made
UNIT_ROWS = 1 << 7  # rows by which the unit of int8 rows is chosen
#: Where the largest numbers of int8 rows may be clipped, for finer steps among the others.
INT8_CLIPS = 1.0, 0.94, 0.88, 0.8, 0.7, 0.6

# --- tiles ---

TILE_ROWS = {"cpu": 1536, "cuda": 1 << 13}  # rows a side of a tile: the keys of a CPU's take 4.5 MB
RUN_KEYS = 64  # keys of a run: its maximum is compared before its keys are
DENSE_RUNS = 0.95  # share of runs with a wanted key beyond which every key of a tile is compared
BORDERS_COUNTED_SINGLY = 8  # with more borders one histogram of the keys serves them all
SCORES_BEFORE_MERGING = 1 << 19  # scores collected in a stretch before equal ones are merged

# --- windows ---

SCORES_BEFORE_NARROWING = 1 << 14  # distinct scores held around a rank before the window is narrowed
SCORES_BESIDE_RANK = 1 << 12  # distinct scores kept on either side of a rank when all pairs are in

# --- passes ---

PAIRS_A_BATCH = 1 << 26  # below a second of work
PAIRS_A_PIECE = 1 << 31  # some ten seconds of work, which a killed process loses
LEAST_PIECES = 64  # for as many processes
SAMPLED_ROWS = 1024  # rows a side of the sample of scores: half a million pairs of a group
