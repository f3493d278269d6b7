# SPDX-License-Identifier: Apache-2.0
"""A mixed-integer program, solved by HiGHS."""
from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from brain_cloud.placement.files import PlacementProblem

Terms = dict[int, float]    # factors by column
PATIENCE = 60.0             # s that one answer may take


@dataclass
class Program:
    """Columns between 0 and 1, and rows that bound sums of them.

    Attributes:
        costs, whole: of each column, and whether it is 0 or 1 only.
        rows: lower and upper bound, and the sum that is between.
    """

    costs: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[float, float, Terms]] = field(default_factory=list)

    def column(self, cost: float = 0.0, whole: bool = False) -> int:
        """A new variable."""
        self.costs.append(cost)
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, low: float, high: float, terms: Terms) -> None:
        """``low`` <= sum of terms <= ``high``."""
        self.rows.append((low, high, terms))

    def solve(self, costs: list[float]) -> list[float] | None:
        """Values of the columns at which these costs are least; None: no values keep all rows.

        Raises:
            ModuleNotFoundError: HiGHS is not installed.
            PlacementProblem: it found no answer.
        """
        import highspy._core  # a robot does without

        largest = max(map(abs, costs), default=0.0) or 1.0
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(costs), len(self.rows)
        # divided, or the solver's own tolerances would be those of a small price
        model.col_cost_ = [cost / largest for cost in costs]
        model.col_lower_, model.col_upper_ = [0.0] * len(costs), [1.0] * len(costs)
        model.row_lower_, model.row_upper_ = [row[0] for row in self.rows], [row[1] for row in self.rows]
        model.integrality_ = [highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous
                              for whole in self.whole]
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = [0, *accumulate(len(row[2]) for row in self.rows)]
        matrix.index_ = [column for row in self.rows for column in row[2]]
        matrix.value_ = [value for row in self.rows for value in row[2].values()]
        solver = highspy._core._Highs()     # what Highs is made of, which writes to standard output when it is made
        for option, value in (("output_flag", False), ("threads", 1), ("time_limit", PATIENCE), ("mip_rel_gap", 0.0),
                              ("mip_abs_gap", 1e-9)):
            solver.setOptionValue(option, value)
        solver.passModel(model)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise PlacementProblem(f"HiGHS found no answer ({solver.modelStatusToString(status)}); look for numbers in "
                                   f"the files that are far too large or too small")
        return list(solver.getSolution().col_value)
