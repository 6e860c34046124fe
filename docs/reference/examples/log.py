import trueloop

trueloop.log(entropy=0.5)  # ignored in a script that nobody watches; a value of this step otherwise
