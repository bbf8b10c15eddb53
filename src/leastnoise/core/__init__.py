"""What every other room uses: errors, operators, exact integers, deadlines, files.

errors              every exception of the library
remedies            what an error says to do next, as values
extras              optional packages, and the command that installs each
printable           text that cannot take over a terminal
look_alikes         texts that look alike and are not equal
operators           matrices known by what they do
directed            floats on a known side of rationals, and decimals that enclose
exact_integers      integer arithmetic that cannot wrap
limbs               exact products of short integers, by floats
merged_cells        cells with equal columns of the workload, merged
numerical_rank      the rank of rows, by one criterion for the whole package
backend             matrix operations on NumPy or PyTorch
decompositions      eigendecompositions on the device that searches; systems of clearly full rank
random_bits         the one source of secret random bits
deadline            the deadline of a search, and its progress callback
notebook            how values show themselves in a notebook
progress            where a long computation stands, and how it ended
progress_bar        a bar in notebooks while something takes long
steps               what was done and when, for logs
interruption        Ctrl-C, held back where it would waste what was paid for
resources           memory, time and threads of linear algebra, before the first step
whole_file          files that are written whole or not at all
container           one file of JSON and arrays, read without trusting it
"""
